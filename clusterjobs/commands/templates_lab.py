def run_in_lab(tests):
    return []
