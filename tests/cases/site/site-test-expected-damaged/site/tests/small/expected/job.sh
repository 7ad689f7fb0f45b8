#!/bin/bash
ÿ
