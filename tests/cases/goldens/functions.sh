# ======== array-of-commands
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# ======== container-shifter-p4d
export HOME=${HOME:-~} USER=${USER:-${SLURM_JOB_USER-}} PATH="${PATH:+$PATH:}"/opt/slurm/bin:/usr/bin:/bin
kept='' others='' dropped=() # patterns of names: what this job has from Slurm; what changes bash or is another job's
kept+='ARRAY_.*|CLUSTER_NAME|CONF|CONF_SERVER|CPUS_ON_NODE|GPUS_ON_NODE|GTIDS|JOB_.*|JOBID|NNODES|NODEID|NODELIST'
kept+='|NPROCS|NTASKS|RESTART_COUNT|SUBMIT_.*|TASKS_PER_NODE|TASK_PID|TOPOLOGY_.*|WORKING_CLUSTER|CPUS_PER_TASK'
kept+='|GPUS_PER_NODE|MEM_PER_NODE|NTASKS_PER_NODE|SPANK_.*'
others+='RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|BASH_ENV|BASHOPTS|POSIXLY_CORRECT'
others+='|SECONDS|SHELLOPTS|BASH_COMPAT|CDPATH|EXECIGNORE|FUNCNEST|GLOBIGNORE|TMOUT|SLURM_.*|SRUN_.*|TORCHELASTIC_.*'
others+='|OMPI_COMM_.*|PMI.*|SQUEUE_.*|SCANCEL_.*|SCONTROL_.*'
while IFS='=' read -r -d '' name _; do
  [[ ! $name =~ ^($others)$ || $name =~ ^SLURM_($kept)$ ]] || dropped+=(-u "$name")
  [[ $name != BASH_FUNC_*%% ]] || ! type "${name:10:-2}" &> /dev/null || dropped+=(-u "$name") # it hides a command
done < /proc/self/environ
[[ -d ${TMPDIR:-/tmp} && -w ${TMPDIR:-/tmp} ]] || dropped+=(-u TMPDIR) # a folder of the login node
exec env "${dropped[@]}" "$BASH" "$0" "$@"

# ======== container-docker-deepspeed
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  if [[ -n $child ]]; then
    kill -- "$child" 2>/dev/null
    timeout 10 tail --pid="$child" -f /dev/null
  fi
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# Containers may be left behind by a crash, or still be on their way out: remove those of this user
# whose job is over, or is this one.
remove_old_containers() {
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=2 --ntasks=2 --ntasks-per-node=1 bash -c '
    set -o pipefail
    end() {
      printf "clusterjobs: %s: %s\n" "$SLURMD_NODENAME" "$1" >&2
      exit 1
    }
    states=running,suspended,completing
    alive=" $(squeue --noheader --user="$UID" --states="$states" --format=%A | tr "\n" " ")" ||
      end "squeue does not list the running jobs"
    left() {
      docker ps --all --filter="label=clusterjobs.user=$UID" --format="{{.Names}}" |
        while read -r name; do
          job=${name#clusterjobs-}
          [[ $job != "$SLURM_JOB_ID" && $alive == *" $job "* ]] || printf "%s\n" "$name"
        done
    }
    for _ in {1..60}; do
      names=$(left) || end "docker does not answer: may this user call it?"
      [[ -n $names ]] || exit 0
      xargs docker rm --force <<< "$names" || sleep 1 # it is being removed
    done
    end "old containers cannot be removed: $names"' \
    || fail 'not every node is ready for its container'
}

# ======== container-docker-horovod
launch_over_ssh() { # ssh_serve.py runs on every node, and the launcher on the first
  python3 "$job_dir/ssh_settings.py" >&"$lifeline" || return
  srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=2 --ntasks=2 --ntasks-per-node=1 --kill-on-bad-exit=1 "${container[@]}" bash -c '
    [[ -x $VIRTUAL_ENV/bin/python3 ]] || { echo "no virtual environment at $VIRTUAL_ENV" >&2; exit 1; }
    export PATH="$VIRTUAL_ENV/bin:$PATH"
    export LD_LIBRARY_PATH=/opt/amazon/efa/lib:/opt/amazon/efa/lib64:/opt/amazon/ofi-nccl/lib:/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu:/opt/aws-ofi-nccl/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    exec python3 "$@"' node \
    "$job_dir/ssh_serve.py" "$ssh_dir" "${nodes[@]}" -- "${launcher[@]}" <&"$lifeline"
}

watch_ranks() { # stops ranks that have stalled, and a launcher whose ranks are gone
  local python
  trap '' INT; python=$(find_python) || exit # at SIGINT, Python would print a traceback
  exec "$python" -BEsS "$job_dir/watchdog.py" --ranks="$ranks" --folder="$job_dir" --job="$slurm_job_id" \
    --attempt="$attempt" --nodes=2 --checkpoints=/fsx/checkpoints/hvd
}

# ======== container-docker-neox
: "${SLURMD_NODENAME:?this is a batch script: submit it with sbatch}"
[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" carried start_again.sh)"; exit 1; } # without what sbatch's caller exported
main "$@"
exit # programs follow

: <<'end of make_safe_folder.sh'
(the text of make_safe_folder.sh)
end of make_safe_folder.sh
: <<'end of attempt_files.py'
(the text of attempt_files.py)
end of attempt_files.py
: <<'end of ssh_interface.py'
(the text of ssh_interface.py)
end of ssh_interface.py
: <<'end of ssh_node.py'
(the text of ssh_node.py)
end of ssh_node.py
: <<'end of ssh_run.py'
(the text of ssh_run.py)
end of ssh_run.py
: <<'end of ssh_serve.py'
(the text of ssh_serve.py)
end of ssh_serve.py
: <<'end of ssh_settings.py'
(the text of ssh_settings.py)
end of ssh_settings.py
: <<'end of whole_checkpoint.py'
(the text of whole_checkpoint.py)
end of whole_checkpoint.py


# ======== data-of-all-kinds
: "${SLURMD_NODENAME:?this is a batch script: submit it with sbatch}"
[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" carried start_again.sh)"; exit 1; } # without what sbatch's caller exported
main "$@"
exit # programs follow

: <<'end of make_safe_folder.sh'
(the text of make_safe_folder.sh)
end of make_safe_folder.sh
: <<'end of first_exit_code.sh'
(the text of first_exit_code.sh)
end of first_exit_code.sh
: <<'end of attempt.py'
(the text of attempt.py)
end of attempt.py
: <<'end of attempt_files.py'
(the text of attempt_files.py)
end of attempt_files.py
: <<'end of export.py'
(the text of export.py)
end of export.py
: <<'end of export_bucket.py'
(the text of export_bucket.py)
end of export_bucket.py
: <<'end of export_folder.py'
(the text of export_folder.py)
end of export_folder.py
: <<'end of preload.py'
(the text of preload.py)
end of preload.py
: <<'end of safe_folder.py'
(the text of safe_folder.py)
end of safe_folder.py
: <<'end of stage.py'
(the text of stage.py)
end of stage.py
: <<'end of stage_archive.py'
(the text of stage_archive.py)
end of stage_archive.py
: <<'end of stage_bucket.py'
(the text of stage_bucket.py)
end of stage_bucket.py
: <<'end of stage_commit.py'
(the text of stage_commit.py)
end of stage_commit.py
: <<'end of stage_copy.py'
(the text of stage_copy.py)
end of stage_copy.py
: <<'end of stage_download.py'
(the text of stage_download.py)
end of stage_download.py
: <<'end of stage_etag.py'
(the text of stage_etag.py)
end of stage_etag.py
: <<'end of stage_lab.py'
(the text of stage_lab.py)
end of stage_lab.py
: <<'end of stage_list.py'
(the text of stage_list.py)
end of stage_list.py
: <<'end of stage_lock.py'
(the text of stage_lock.py)
end of stage_lock.py
: <<'end of stage_log.py'
(the text of stage_log.py)
end of stage_log.py
: <<'end of stage_pool.py'
(the text of stage_pool.py)
end of stage_pool.py
: <<'end of stage_record.py'
(the text of stage_record.py)
end of stage_record.py
: <<'end of stage_s3.py'
(the text of stage_s3.py)
end of stage_s3.py
: <<'end of stage_space.py'
(the text of stage_space.py)
end of stage_space.py
: <<'end of stage_tool.py'
(the text of stage_tool.py)
end of stage_tool.py
: <<'end of watchdog.py'
(the text of watchdog.py)
end of watchdog.py
: <<'end of watchdog_ranks.py'
(the text of watchdog_ranks.py)
end of watchdog_ranks.py


start_export() { # errors are in the log and in data.jsonl; the exit code stays the training's
  STAGE_DIR=$job_dir python3 -B "$job_dir/export.py" --every 60 "${exports[@]}" &
  export_pid=$!
}

# ======== deepspeed-srun-p4d
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  if [[ -n $child ]]; then
    kill -- "$child" 2>/dev/null
    timeout 10 tail --pid="$child" -f /dev/null
  fi
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# ======== deepspeed-launcher-p3dn
: "${SLURMD_NODENAME:?this is a batch script: submit it with sbatch}"
[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" carried start_again.sh)"; exit 1; } # without what sbatch's caller exported
main "$@"
exit # programs follow

: <<'end of make_safe_folder.sh'
(the text of make_safe_folder.sh)
end of make_safe_folder.sh
: <<'end of first_exit_code.sh'
(the text of first_exit_code.sh)
end of first_exit_code.sh
: <<'end of attempt_files.py'
(the text of attempt_files.py)
end of attempt_files.py
: <<'end of whole_checkpoint.py'
(the text of whole_checkpoint.py)
end of whole_checkpoint.py


# ======== deepspeed-pdsh-p4d
launch_over_ssh() { # ssh_serve.py runs on every node, and the launcher on the first
  python3 "$job_dir/ssh_settings.py" >&"$lifeline" || return
  srun "${srun_options[@]}" bash -c '
    exec python3 "$@"' node \
    "$job_dir/ssh_serve.py" "$ssh_dir" "${nodes[@]}" -- "${launcher[@]}" <&"$lifeline"
}

: "${SLURMD_NODENAME:?this is a batch script: submit it with sbatch}"
[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" carried start_again.sh)"; exit 1; } # without what sbatch's caller exported
main "$@"
exit # programs follow

: <<'end of make_safe_folder.sh'
(the text of make_safe_folder.sh)
end of make_safe_folder.sh
: <<'end of first_exit_code.sh'
(the text of first_exit_code.sh)
end of first_exit_code.sh
: <<'end of ssh_interface.py'
(the text of ssh_interface.py)
end of ssh_interface.py
: <<'end of ssh_node.py'
(the text of ssh_node.py)
end of ssh_node.py
: <<'end of ssh_run.py'
(the text of ssh_run.py)
end of ssh_run.py
: <<'end of ssh_serve.py'
(the text of ssh_serve.py)
end of ssh_serve.py
: <<'end of ssh_settings.py'
(the text of ssh_settings.py)
end of ssh_settings.py


# ======== accelerate-on-pcs
export HOME=${HOME:-~} USER=${USER:-${SLURM_JOB_USER-}} PATH="${PATH:+$PATH:}"/opt/aws/pcs/scheduler/slurm-24.11/bin:/usr/bin:/bin
kept='' others='' dropped=() # patterns of names: what this job has from Slurm; what changes bash or is another job's
kept+='ARRAY_.*|CLUSTER_NAME|CONF|CONF_SERVER|CPUS_ON_NODE|GPUS_ON_NODE|GTIDS|JOB_.*|JOBID|NNODES|NODEID|NODELIST'
kept+='|NPROCS|NTASKS|RESTART_COUNT|SUBMIT_.*|TASKS_PER_NODE|TASK_PID|TOPOLOGY_.*|WORKING_CLUSTER|CPUS_PER_TASK'
kept+='|GPUS_PER_NODE|MEM_PER_NODE|NTASKS_PER_NODE|SPANK_.*'
others+='RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|BASH_ENV|BASHOPTS|POSIXLY_CORRECT'
others+='|SECONDS|SHELLOPTS|BASH_COMPAT|CDPATH|EXECIGNORE|FUNCNEST|GLOBIGNORE|TMOUT|SLURM_.*|SRUN_.*|TORCHELASTIC_.*'
others+='|OMPI_COMM_.*|PMI.*|SQUEUE_.*|SCANCEL_.*|SCONTROL_.*|ACCELERATE_.*|FSDP_.*'
while IFS='=' read -r -d '' name _; do
  [[ ! $name =~ ^($others)$ || $name =~ ^SLURM_($kept)$ ]] || dropped+=(-u "$name")
  [[ $name != BASH_FUNC_*%% ]] || ! type "${name:10:-2}" &> /dev/null || dropped+=(-u "$name") # it hides a command
done < /proc/self/environ
[[ -d ${TMPDIR:-/tmp} && -w ${TMPDIR:-/tmp} ]] || dropped+=(-u TMPDIR) # a folder of the login node
exec env "${dropped[@]}" "$BASH" "$0" "$@"

finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# ======== bloom-without-partition
export HOME=${HOME:-~} USER=${USER:-${SLURM_JOB_USER-}} PATH="${PATH:+$PATH:}"/usr/bin:/bin
kept='' others='' dropped=() # patterns of names: what this job has from Slurm; what changes bash or is another job's
kept+='ARRAY_.*|CLUSTER_NAME|CONF|CONF_SERVER|CPUS_ON_NODE|GPUS_ON_NODE|GTIDS|JOB_.*|JOBID|NNODES|NODEID|NODELIST'
kept+='|NPROCS|NTASKS|RESTART_COUNT|SUBMIT_.*|TASKS_PER_NODE|TASK_PID|TOPOLOGY_.*|WORKING_CLUSTER|CPUS_PER_TASK|HINT'
kept+='|MEM_PER_NODE|NTASKS_PER_NODE|SPANK_.*'
others+='RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|BASH_ENV|BASHOPTS|POSIXLY_CORRECT'
others+='|SECONDS|SHELLOPTS|BASH_COMPAT|CDPATH|EXECIGNORE|FUNCNEST|GLOBIGNORE|TMOUT|SLURM_.*|SRUN_.*|TORCHELASTIC_.*'
others+='|OMPI_COMM_.*|PMI.*|SQUEUE_.*|SCANCEL_.*|SCONTROL_.*'
while IFS='=' read -r -d '' name _; do
  [[ ! $name =~ ^($others)$ || $name =~ ^SLURM_($kept)$ ]] || dropped+=(-u "$name")
  [[ $name != BASH_FUNC_*%% ]] || ! type "${name:10:-2}" &> /dev/null || dropped+=(-u "$name") # it hides a command
done < /proc/self/environ
[[ -d ${TMPDIR:-/tmp} && -w ${TMPDIR:-/tmp} ]] || dropped+=(-u TMPDIR) # a folder of the login node
exec env "${dropped[@]}" "$BASH" "$0" "$@"

# ======== tiny-gpt-sweep
# ==== 6 points of the sweep tiny-gpt-sweep ====================================================

read_point() { # INDEX; `export -n`: sbatch's caller may have exported such a name
  point_index=$1
  case $1 in
    #         point_name                     lr    micro  accumulation  content
    0) set -- 0000-lr=4e-3,micro=4-33fa1ac2  4e-3  4      4             af9f40bf020150a0 ;;
    1) set -- 0001-lr=4e-3,micro=8-4b4644bf  4e-3  8      2             7114ccbe3ccf5393 ;;
    2) set -- 0002-lr=2e-3,micro=4-676e868f  2e-3  4      4             53d52b3df90c00b4 ;;
    3) set -- 0003-lr=2e-3,micro=8-a7d6e92d  2e-3  8      2             4e8a003552d1bb5a ;;
    4) set -- 0004-lr=1e-3,micro=4-9da8093f  1e-3  4      4             eb623d64c8a86e90 ;;
    5) set -- 0005-lr=1e-3,micro=8-05a63609  1e-3  8      2             ffd0211eca3cc50e ;;
    *) return 1 ;;
  esac
  export -n point_name=$1 lr=$2 micro=$3 accumulation=$4 content=$5
}

# ======== megatron-lm-torchrun-llama
# The training ends 420 s before the time limit, or a little earlier, since it takes whole minutes. If
# it starts within two minutes, 180 s to save are left before the ranks get SIGTERM.
set_exit_time() {
  local limit
  limit=$(squeue --noheader --job="$slurm_job_id" --format=%e)
  [[ $limit == 20* ]] || fail "Slurm does not show when this job has to end: $limit"
  exit_minutes=$((($(date +%s --date="$limit") - $(date +%s) - 420) / 60))
  (( exit_minutes > 0 )) || { reason=time_limit; exit 1; }
  exit_second=$((SECONDS + exit_minutes * 60))
}

on_time_limit() { # USR1, 240 s before the time limit or up to a minute earlier
  [[ $reason != completed ]] || return 0
  reason=time_limit
  [[ -n $ranks ]] || { on_signal 10; return; }
  printf 'clusterjobs: got SIGUSR1: the time limit is near: ranks that do not end by themselves are stopped in 180 s\n'
  stop_ranks_after 180 > /dev/null 2>&1 &
  background_pids+=("$!")
}

# ======== neox-20b
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  if [[ -n $child ]]; then
    kill -- "$child" 2>/dev/null
    timeout 10 tail --pid="$child" -f /dev/null
  fi
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# ======== preflight-megatron-p4d
check_nodes() {
  rm -f -- "$job_dir/bad_nodes"
  run_child "$python" -BEsS "$job_dir/preflight.py" "${nodes[@]}" -- "${checks[@]}" -- \
    srun --overlap --cpu-bind=none --mpi=none --input=none --chdir=/ --kill-on-bad-exit=0 \
    --nodes=16 --ntasks=16 --ntasks-per-node=1
  (( child_status )) || return 0
  end_if_stopped
  if [[ -s $job_dir/bad_nodes ]]; then
    reason=bad_node
    requeue_without "$(< "$job_dir/bad_nodes")" || fail 'Slurm refuses to requeue the job'
    exit "$child_status"
  fi
  reason=not_started
  exit "$child_status"
}

# Slurm excludes nodes only for a job that is held. Holding it ends this script: Slurm's KillWait,
# 30 s on ParallelCluster, is left for the rest.
requeue_without() { # NODES
  trap '' TERM USR1
  local excluded requeue
  excluded=$(squeue --noheader --job="$slurm_job_id" --format=%x)
  requeue=$(squeue --noheader --job="$slurm_job_id" --Format=requeue)
  requeue=${requeue%% *} # restored below: it decides what a lost node means for the job
  [[ -z $excluded ]] || set -- "$1,$excluded"
  printf 'clusterjobs: starting again without %s\n' "$1"
  scontrol update JobId="$slurm_job_id" Requeue=1 \
    && scontrol requeuehold "$slurm_job_id" \
    && scontrol update JobId="$slurm_job_id" ExcNodeList="$1" Requeue="$requeue" \
    && scontrol release "$slurm_job_id"
}

# ======== preflight-of-some-checks
check_all_reduce() { # GBPS PERCENT SECONDS: the time after which a rank reports whom it waits for
  run_child timeout --kill-after=10 300 srun "${srun_options[@]}" \
    python3 "$job_dir/all_reduce.py" "$@"
  (( child_status )) || return 0
  end_if_stopped
  printf 'clusterjobs: the all-reduce ended with exit code %s\n' "$child_status"
  reason=not_started
  exit 69
}

: "${SLURMD_NODENAME:?this is a batch script: submit it with sbatch}"
[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" carried start_again.sh)"; exit 1; } # without what sbatch's caller exported
main "$@"
exit # programs follow

: <<'end of make_safe_folder.sh'
(the text of make_safe_folder.sh)
end of make_safe_folder.sh
: <<'end of first_exit_code.sh'
(the text of first_exit_code.sh)
end of first_exit_code.sh
: <<'end of all_reduce.py'
(the text of all_reduce.py)
end of all_reduce.py
: <<'end of nccl_log.py'
(the text of nccl_log.py)
end of nccl_log.py
: <<'end of preflight.py'
(the text of preflight.py)
end of preflight.py
: <<'end of preflight_hardware.sh'
(the text of preflight_hardware.sh)
end of preflight_hardware.sh
: <<'end of preflight_node.sh'
(the text of preflight_node.sh)
end of preflight_node.sh
: <<'end of preflight_software.sh'
(the text of preflight_software.sh)
end of preflight_software.sh
: <<'end of preflight_table.py'
(the text of preflight_table.py)
end of preflight_table.py


# ======== preflight-on-cpus
check_nodes() {
  rm -f -- "$job_dir/bad_nodes"
  run_child "$python" -BEsS "$job_dir/preflight.py" "${nodes[@]}" -- "${checks[@]}" -- \
    srun --overlap --cpu-bind=none --mpi=none --input=none --chdir=/ --kill-on-bad-exit=0 \
    --nodes=2 --ntasks=2 --ntasks-per-node=1
  (( child_status )) || return 0
  end_if_stopped
  reason=not_started
  exit "$child_status"
}

# ======== whole-nodes-unrequested
export HOME=${HOME:-~} USER=${USER:-${SLURM_JOB_USER-}} PATH="${PATH:+$PATH:}"/opt/slurm/bin:/usr/bin:/bin
kept='' others='' dropped=() # patterns of names: what this job has from Slurm; what changes bash or is another job's
kept+='ARRAY_.*|CLUSTER_NAME|CONF|CONF_SERVER|CPUS_ON_NODE|GPUS_ON_NODE|GTIDS|JOB_.*|JOBID|NNODES|NODEID|NODELIST'
kept+='|NPROCS|NTASKS|RESTART_COUNT|SUBMIT_.*|TASKS_PER_NODE|TASK_PID|TOPOLOGY_.*|WORKING_CLUSTER|MEM_PER_NODE'
kept+='|NTASKS_PER_NODE|SPANK_.*'
others+='RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|CUDA_VISIBLE_DEVICES|BASH_ENV'
others+='|BASHOPTS|POSIXLY_CORRECT|SECONDS|SHELLOPTS|BASH_COMPAT|CDPATH|EXECIGNORE|FUNCNEST|GLOBIGNORE|TMOUT|SLURM_.*'
others+='|SRUN_.*|TORCHELASTIC_.*|OMPI_COMM_.*|PMI.*|SQUEUE_.*|SCANCEL_.*|SCONTROL_.*'
while IFS='=' read -r -d '' name _; do
  [[ ! $name =~ ^($others)$ || $name =~ ^SLURM_($kept)$ ]] || dropped+=(-u "$name")
  [[ $name != BASH_FUNC_*%% ]] || ! type "${name:10:-2}" &> /dev/null || dropped+=(-u "$name") # it hides a command
done < /proc/self/environ
[[ -d ${TMPDIR:-/tmp} && -w ${TMPDIR:-/tmp} ]] || dropped+=(-u TMPDIR) # a folder of the login node
exec env "${dropped[@]}" "$BASH" "$0" "$@"

# ======== restarts-megatron
run_ranks() { # COMMAND...: in the background, since bash handles signals only between commands
  local log_before; log_before=$(stat -c %s -- "$job_dir/job.log") || log_before=0
  trap '' PIPE; local status # the other signals end the job or set `reason`: the code is not needed
  (trap '' TERM; trap - PIPE; "$@") <&0 & ranks=$! # Slurm sends the ranks SIGTERM too, they may be saving; <&0: keep stdin
  watch_ranks &
  background_pids+=("$!")
  while status=0; wait "$ranks" || status=$?; kill -0 "$ranks" 2>/dev/null; do :; done # a `wait` too many would hang
  trap : PIPE; ranks=''
  [[ -n $reason || ! -s $job_dir/watchdog.$attempt ]] || reason=$(< "$job_dir/watchdog.$attempt")
  [[ -n $reason ]] || ask_slurm_for_reason
  (( status != 0 || SECONDS < exit_second )) || reason=time_limit
  (( status <= 128 )) || [[ -n $reason ]] || status=$(run_carried first_exit_code.sh "$job_dir/job.log" "$log_before" "$status" || echo "$status")
  [[ $status == 0 && -z $reason ]] || exit "$status" # stopped ranks never count as completed
}

# The training ends 420 s before the time limit, or a little earlier, since it takes whole minutes. If
# it starts within two minutes, 180 s to save are left before the ranks get SIGTERM.
set_exit_time() {
  local limit
  limit=$(squeue --noheader --job="$slurm_job_id" --format=%e)
  [[ $limit == 20* ]] || fail "Slurm does not show when this job has to end: $limit"
  exit_minutes=$((($(date +%s --date="$limit") - $(date +%s) - 420) / 60))
  (( exit_minutes > 0 )) || { reason=time_limit; exit 1; }
  exit_second=$((SECONDS + exit_minutes * 60))
}

on_time_limit() { # USR1, 240 s before the time limit or up to a minute earlier
  [[ $reason != completed ]] || return 0
  reason=time_limit
  [[ -n $ranks ]] || { on_signal 10; return; }
  printf 'clusterjobs: got SIGUSR1: the time limit is near: ranks that do not end by themselves are stopped in 180 s\n'
  stop_ranks_after 180 > /dev/null 2>&1 &
  background_pids+=("$!")
}

decide() { # begin | end OPTION...: by attempt.py, which also writes the record; "" if it cannot run
  decision=''
  read -r -t 120 decision < <(
    trap '' INT TERM
    python=$(find_python) || exit
    exec "$python" -BEsS "$job_dir/attempt.py" "$@" --folder="$job_dir" --attempt="$attempt" \
      "${budgets[@]}" --checkpoints=/fsx/checkpoints/gpt2-345m --marker=/fsx/checkpoints/gpt2-345m/latest_checkpointed_iteration.txt
  ) || true
}

# ======== restarts-own-script
start_job() { # JOB_FOLDER ARGUMENT...
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  umask go-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job # the umask is for the ranks, too
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  background_pids=()
  budgets=(--budget=time_limit=20 --budget=failure=2 --budget=node_failure=3 --budget=stalled=3)
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  trap on_time_limit USR1
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  { carried plan.json > "$job_dir/plan.json.new" && mv -f -- "$job_dir"/plan.json{.new,}; } || true # a full disk
  unpack_programs \
    attempt.py attempt_files.py watchdog.py watchdog_ranks.py || fail "cannot write into $job_dir"
  [[ -z ${SLURM_ARRAY_JOB_ID-} ]] || fail 'planned as one job, got an array (the spec may have `sbatch: {array: 0-3}`)'
  (( $# == 1 )) || fail "unexpected arguments: ${*:2} (job_arguments: true in the spec allows them)"
}

finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  trap 'reason=cancelled' TERM
  kill -- "${background_pids[@]}" 2>/dev/null
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  trap 'requeue() { return 1; }' TERM # record and exit code are those of this reason: a later SIGTERM only prevents the requeue
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record_and_decide
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  [[ $decision != restart ]] || requeue || decision=stop
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

start_attempt() { # record a lost node before this attempt, and stop after one restart too many
  rm -f -- "$job_dir/stop" # a stale stop request of an earlier attempt
  decide begin
  case $decision in
    start) ;;
    stop) fail 'no restarts are left (restarts in the spec)' ;;
    *) printf 'clusterjobs: attempt.py does not run: this attempt is not counted\n' ;;
  esac
}

on_time_limit() { # USR1, 360 s before the time limit or up to a minute earlier
  [[ $reason != completed ]] || return 0
  reason=time_limit
  [[ -n $ranks ]] || { on_signal 10; return; }
  printf 'clusterjobs: got SIGUSR1: the time limit is near: the ranks have 300 s to save and end\n'
  : > "$job_dir/stop" || true # on a full disk the ranks are stopped below
  signal_ranks USR1
  stop_ranks_after 300 > /dev/null 2>&1 &
  background_pids+=("$!")
}

decide() { # begin | end OPTION...: by attempt.py, which also writes the record; "" if it cannot run
  decision=''
  read -r -t 120 decision < <(
    trap '' INT TERM
    python=$(find_python) || exit
    exec "$python" -BEsS "$job_dir/attempt.py" "$@" --folder="$job_dir" --attempt="$attempt" \
      "${budgets[@]}" --checkpoints=/fsx/checkpoints/again
  ) || true
}

watch_ranks() { # stops ranks that have stalled, and a launcher whose ranks are gone
  local python
  trap '' INT; python=$(find_python) || exit # at SIGINT, Python would print a traceback
  exec "$python" -BEsS "$job_dir/watchdog.py" --ranks="$ranks" --folder="$job_dir" --job="$slurm_job_id" \
    --attempt="$attempt" --nodes=2 --checkpoints=/fsx/checkpoints/again
}

# ======== hyperpod-restarts
decide() { # begin | end OPTION...: by attempt.py, which also writes the record; "" if it cannot run
  decision=''
  read -r -t 120 decision < <(
    trap '' INT TERM
    python=$(find_python) || exit
    exec "$python" -BEsS "$job_dir/attempt.py" "$@" --folder="$job_dir" --attempt="$attempt" \
      "${budgets[@]}" --checkpoints=/fsx/checkpoints/on-hyperpod
  ) || true
}

start_job() { # JOB_FOLDER ARGUMENT...
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  umask go-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job # the umask is for the ranks, too
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  background_pids=()
  budgets=(--budget=time_limit=10 --budget=failure=0 --budget=node_failure=3 --budget=stalled=0)
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  trap on_time_limit USR1
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  { carried plan.json > "$job_dir/plan.json.new" && mv -f -- "$job_dir"/plan.json{.new,}; } || true # a full disk
  unpack_programs \
    attempt.py attempt_files.py || fail "cannot write into $job_dir"
  [[ -z ${SLURM_ARRAY_JOB_ID-} ]] || fail 'planned as one job, got an array (the spec may have `sbatch: {array: 0-3}`)'
  (( $# == 1 )) || fail "unexpected arguments: ${*:2} (job_arguments: true in the spec allows them)"
}

# ======== roles-vllm-pyxis
join_names() { # VARIABLE NODE...: exports their names with commas
  local IFS=,
  export "$1=${*:2}"
}

start_role() { # NAME COMMAND...: its output goes to NAME.log
  printf 'clusterjobs: attempt %s of job %s\n' "$attempt" "$SLURM_JOB_ID" >> "$job_dir/$1.log"
  (trap '' TERM; trap - PIPE; exec "${@:2}") <&0 >> "$job_dir/$1.log" 2>&1 &
  role_pids[$1]=$!
}

wait_for_role() { # NAME PORT SECONDS NODE...: until the port answers on every node
  local role=$1 port=$2 node started=$SECONDS
  for node in "${@:4}"; do
    until timeout 5 "$BASH" -c ': <>"/dev/tcp/$1/$2"' connect "$node" "$port" 2>/dev/null; do
      is_alive "$role" || fail_with_role "$role" 'has ended before it was ready'
      (( SECONDS - started < $3 )) || fail_with_role "$role" "is not ready: no answer from $node port $port in $3 s"
      sleep 1
    done
  done
  printf 'clusterjobs: %s is ready after %s s: port %s answers\n' "$role" "$((SECONDS - started))" "$port"
}

is_alive() { # ROLE
  kill -0 "${role_pids[$1]}" 2>/dev/null
}

fail_with_role() { # ROLE WHAT: ends the attempt, with the exit code of a role that has ended
  local status=1
  is_alive "$1" || wait "${role_pids[$1]}" || status=$?
  [[ -n $reason ]] || ask_slurm_for_reason # a job that is cancelled loses its roles first
  if [[ -z $reason ]]; then
    printf 'clusterjobs: %s %s; its log, %s, ends:\n' "$1" "$2" "$job_dir/$1.log"
    tail -n 20 -- "$job_dir/$1.log" | sed 's/^/  /' || true
    reason="failure of $1"
  fi
  exit "$status"
}

watch_roles() { # stops the ranks if a role ends before they do
  local role
  while pause 1; do
    for role in "${!role_pids[@]}"; do is_alive "$role" || break 2; done
  done
  ask_slurm_for_reason
  [[ -z $reason ]] || return 0 # the whole job ends
  printf 'clusterjobs: %s has ended, so the ranks are stopped in 10 s\n' "$role"
  pause 10 # they may end by themselves, with an error of their own
  : > "$job_dir/stopped.$attempt"
  for _ in 1 2 3; do
    if signal_steps TERM ranks; then break; fi
    pause 2 # the controller may be restarting
  done
  pause 20
  kill -KILL "$ranks"
}

pause() { # SECONDS: it may outlive this script, and must not hold the log open
  sleep "$1" > /dev/null 2>&1
}

fail_if_role_ended() { # STATUS: of the ranks, which fail if a role is gone, or were stopped
  local role
  if [[ $1 == 0 && ! -e $job_dir/stopped.$attempt ]]; then return 0; fi
  for _ in 1 2 3; do
    for role in "${!role_pids[@]}"; do
      is_alive "$role" || fail_with_role "$role" 'ended before the training'
    done
    sleep 1 # a role that has failed may still be ending
  done
}

stop_roles() { # SIGTERM, and after 20 s SIGKILL
  local end=$((SECONDS + 20)) signal=TERM sent=''
  (( ${#role_pids[@]} )) || return 0
  [[ -z $role_watch ]] || kill "$role_watch" 2>/dev/null || true
  while kill -0 "${role_pids[@]}" 2>/dev/null && (( SECONDS < end + 10 )); do
    (( SECONDS < end )) || signal=KILL
    [[ $sent == "$signal" ]] || ! signal_steps "$signal" roles || sent=$signal
    sleep 0.5
  done
  role_pids=()
}

signal_steps() { # SIGNAL ranks|roles: to the steps of the ranks, or to those of the roles
  local steps
  mapfile -t steps < <(squeue --noheader --steps --job="$slurm_job_id" --format='%i %j' |
    awk -v whose="$2" '$1 ~ /[.][0-9]+$/ && ($2 ~ /^role-/) == (whose == "roles") { print $1 }')
  (( ${#steps[@]} )) && scancel --signal="$1" "${steps[@]}" 2>/dev/null # a step may just have ended
}

signal_ranks() { # SIGNAL
  for _ in 1 2 3; do
    if signal_steps "$1" ranks; then return 0; fi
    sleep 2 # the controller may be restarting
  done
  return 0
}

check_nodes() {
  rm -f -- "$job_dir/bad_nodes"
  run_child "$python" -BEsS "$job_dir/preflight.py" "${all_nodes[@]}" -- "${checks[@]}" -- \
    srun --overlap --cpu-bind=none --mpi=none --input=none --chdir=/ --kill-on-bad-exit=0 \
    --nodes=3 --ntasks=3 --ntasks-per-node=1
  (( child_status )) || return 0
  end_if_stopped
  reason=not_started
  exit "$child_status"
}

watch_ranks() { # stops ranks that have stalled, and a launcher whose ranks are gone
  local python
  trap '' INT; python=$(find_python) || exit # at SIGINT, Python would print a traceback
  exec "$python" -BEsS "$job_dir/watchdog.py" --ranks="$ranks" --folder="$job_dir" --job="$slurm_job_id" \
    --attempt="$attempt" --nodes=2 --nodelist="$CLUSTERJOBS_TRAINING_NODES" --stall-seconds=3600 --checkpoints=/fsx/checkpoints/grpo
}

# ======== roles-docker
start_job() { # JOB_FOLDER ARGUMENT...
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  token=$(mktemp -u XXXXXXXXXXXX) # in names in /tmp, so that nobody else can have made them
  umask go-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job # the umask is for the ranks, too
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  background_pids=()
  declare -gA role_pids=()
  role_watch=''; rm -f -- "$job_dir/stopped.$attempt" # of an old job: a new cluster reuses job ids
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  { carried plan.json > "$job_dir/plan.json.new" && mv -f -- "$job_dir"/plan.json{.new,}; } || true # a full disk
  [[ -z ${SLURM_ARRAY_JOB_ID-} ]] || fail 'planned as one job, got an array (the spec may have `sbatch: {array: 0-3}`)'
  (( $# == 1 )) || fail "unexpected arguments: ${*:2} (job_arguments: true in the spec allows them)"
}

run_ranks() { # COMMAND...: in the background, since bash handles signals only between commands
  local log_before; log_before=$(stat -c %s -- "$job_dir/job.log") || log_before=0
  trap '' PIPE; local status # the other signals end the job or set `reason`: the code is not needed
  (trap '' TERM; trap - PIPE; "$@") <&0 & ranks=$! # Slurm sends the ranks SIGTERM too, they may be saving; <&0: keep stdin
  watch_roles &
  role_watch=$!
  background_pids+=("$role_watch")
  while status=0; wait "$ranks" || status=$?; kill -0 "$ranks" 2>/dev/null; do :; done # a `wait` too many would hang
  trap : PIPE; ranks=''
  [[ -n $reason ]] || ask_slurm_for_reason
  [[ -n $reason ]] || fail_if_role_ended "$status"
  (( status <= 128 )) || [[ -n $reason ]] || status=$(run_carried first_exit_code.sh "$job_dir/job.log" "$log_before" "$status" || echo "$status")
  [[ $status == 0 && -z $reason ]] || exit "$status" # stopped ranks never count as completed
}

# ======== steps-before-by-srun
run_step() { # COMMAND...: like a training if `run_ranks` calls it, otherwise SIGTERM ends it and the job
  local name=$step pid status
  step='' # the next ranks are those of the training
  printf 'clusterjobs: step %s starts\n' "$name"
  trap '' PIPE
  (
    trap - PIPE
    [[ ${FUNCNAME[1]} == run_ranks ]] || exec "$@"
    trap '' TERM # the ranks may be saving
    "$@"
  ) <&0 &
  pid=$!
  if [[ ${FUNCNAME[1]} == run_ranks ]]; then ranks=$pid; else child=$pid; fi
  while status=0; wait "$pid" || status=$?; kill -0 "$pid" 2>/dev/null; do :; done
  trap : PIPE
  ranks='' child=''
  [[ -n ${reason#after_failure} ]] || ask_slurm_for_reason
  if (( status )) || [[ -n ${reason#after_failure} ]]; then
    printf 'clusterjobs: step %s ended with exit code %s\n' "$name" "$status" >&2
    exit "$status"
  fi
}

# ======== steps-in-docker
run_step() { # COMMAND...: like a training if `run_ranks` calls it, otherwise SIGTERM ends it and the job
  local name=$step pid status output=''
  step='' # the next ranks are those of the training
  printf 'clusterjobs: step %s starts\n' "$name"
  (( min_bus_bandwidth == 0 )) || output=$job_dir/bus_bandwidth
  trap '' PIPE
  (
    [[ -z $output ]] || exec > "$output"
    trap - PIPE
    [[ ${FUNCNAME[1]} == run_ranks ]] || exec "$@"
    trap '' TERM # the ranks may be saving
    "$@"
  ) <&0 &
  pid=$!
  if [[ ${FUNCNAME[1]} == run_ranks ]]; then ranks=$pid; else child=$pid; fi
  while status=0; wait "$pid" || status=$?; kill -0 "$pid" 2>/dev/null; do :; done
  trap : PIPE
  ranks='' child=''
  [[ -z $output ]] || cat -- "$output"
  [[ -n ${reason#after_failure} ]] || ask_slurm_for_reason
  if (( status )) || [[ -n ${reason#after_failure} ]]; then
    printf 'clusterjobs: step %s ended with exit code %s\n' "$name" "$status" >&2
    exit "$status"
  fi
  [[ -z $output ]] || check_bus_bandwidth "$name"
}

check_bus_bandwidth() { # STEP: nccl-tests prints `# Avg bus bandwidth    : 194.675` in GB/s, once per test
  local found=() lowest problem=''
  mapfile -t found < <(sed -n 's/^.*# Avg bus bandwidth *: *\([^ ]*\).*/\1/p' "$job_dir/bus_bandwidth")
  lowest=$(printf '%s\n' "${found[@]}" | env LC_ALL=C sort -g | head -n 1)
  if (( ${#found[@]} < reports )); then
    problem="${#found[@]} of $reports lines '# Avg bus bandwidth' were printed: is it a program of nccl-tests?"
  elif (( ${#found[@]} > reports )); then
    problem="${#found[@]} separate tests instead of $reports: nccl-tests needs MPI=1 when it is built, and srun: {mpi: pmix}"
  elif ! [[ $lowest =~ ^[0-9] ]] || ! awk -v "is=$lowest" -v "least=$min_bus_bandwidth" 'BEGIN { exit (is + 0 < least + 0) }'; then
    problem="$lowest GB/s is less than min_bus_bandwidth, $min_bus_bandwidth GB/s"
  else
    printf 'clusterjobs: step %s: bus bandwidth %s GB/s (min_bus_bandwidth: %s)\n' "$1" "$lowest" "$min_bus_bandwidth"
    return
  fi
  printf 'clusterjobs: step %s: %s\n' "$1" "$problem" >&2
  reason=not_started
  exit 69
}

# ======== steps-nccl-p5
run_step() { # COMMAND...: like a training if `run_ranks` calls it, otherwise SIGTERM ends it and the job
  local name=$step pid status started=$SECONDS output=''
  step='' # the next ranks are those of the training
  printf 'clusterjobs: step %s starts\n' "$name"
  (( min_bus_bandwidth == 0 )) || output=$job_dir/bus_bandwidth
  trap '' PIPE
  (
    [[ -z $output ]] || exec > "$output"
    trap - PIPE
    [[ ${FUNCNAME[1]} == run_ranks ]] || exec "$@"
    trap '' TERM # the ranks may be saving
    "$@"
  ) <&0 &
  pid=$!
  if [[ ${FUNCNAME[1]} == run_ranks ]]; then ranks=$pid; else child=$pid; fi
  while status=0; wait "$pid" || status=$?; kill -0 "$pid" 2>/dev/null; do :; done
  trap : PIPE
  ranks='' child=''
  [[ -z $output ]] || cat -- "$output"
  [[ -n ${reason#after_failure} ]] || ask_slurm_for_reason
  if (( status )) || [[ -n ${reason#after_failure} ]]; then
    if (( step_seconds && SECONDS - started >= step_seconds )); then
      printf 'clusterjobs: step %s took longer than %s s (timeout_seconds)\n' "$name" "$step_seconds" >&2
      (( status != 137 )) || status=124 # it ignored SIGTERM
    fi
    printf 'clusterjobs: step %s ended with exit code %s\n' "$name" "$status" >&2
    exit "$status"
  fi
  [[ -z $output ]] || check_bus_bandwidth "$name"
}

run_always() { # after each attempt, however it has ended; nothing here changes the job's exit code
  trap - {1..3} {6..16} {24..31} {34..64} # `finish` ignores them, and its commands would, too
  local time_left=1000000
  export CLUSTERJOBS_REASON=$reason CLUSTERJOBS_EXIT_CODE=$status CLUSTERJOBS_DECISION=stop
  case $reason in time_limit | cancelled | bad_node) time_left=15 ;; esac # Slurm ends the job soon: KillWait
  time_left=$((SECONDS + time_left))
  run_at_the_end alert 60 ./alert "it's over"
  run_at_the_end rm 10 srun --overlap --cpu-bind=none --cpus-per-task="$SLURM_CPUS_ON_NODE" \
    --nodes=2 --ntasks=2 --ntasks-per-node=1 rm -rf /scratch/cache
}

run_at_the_end() { # STEP SECONDS COMMAND...
  local name=$1 limit=$2 status=0
  (( limit < time_left - SECONDS )) || limit=$((time_left - SECONDS))
  if (( limit <= 0 )); then
    printf 'clusterjobs: step %s does not run: no time is left\n' "$name" >&2
    return
  fi
  printf 'clusterjobs: step %s starts\n' "$name"
  timeout --kill-after=5 "$limit" "${@:3}" < /dev/null || status=$?
  (( status == 0 )) ||
    printf 'clusterjobs: step %s ended with exit code %s (timeout: %s s)\n' "$name" "$status" "$limit" >&2
}

# ======== steps-of-a-sweep
# ==== 2 points of the sweep steps-of-a-sweep ==================================================

read_point() { # INDEX; `export -n`: sbatch's caller may have exported such a name
  point_index=$1
  case $1 in
    #         point_name            lr   content
    0) set -- 0000-lr=0.1-24499c0d  0.1  192374b0e7e9fbfa ;;
    1) set -- 0001-lr=0.2-efd6bfe1  0.2  44900cf46d25c26d ;;
    *) return 1 ;;
  esac
  export -n point_name=$1 lr=$2 content=$3
}

run_always() { # after each attempt, however it has ended; nothing here changes the job's exit code
  trap - {1..3} {6..16} {24..31} {34..64} # `finish` ignores them, and its commands would, too
  local time_left=1000000
  export CLUSTERJOBS_REASON=$reason CLUSTERJOBS_EXIT_CODE=$status CLUSTERJOBS_DECISION=stop
  case $reason in time_limit | cancelled | bad_node) time_left=15 ;; esac # Slurm ends the job soon: KillWait
  time_left=$((SECONDS + time_left))
  run_at_the_end report 60 ./report "$lr" "$point_name"
}

# ======== steps-whose-result-is-there
run_step() { # COMMAND...: like a training if `run_ranks` calls it, otherwise SIGTERM ends it and the job
  local name=$step pid status
  step='' # the next ranks are those of the training
  if [[ -n $creates && -e $creates ]]; then
    printf 'clusterjobs: step %s is left out: there is %s\n' "$name" "$creates"
    return
  fi
  printf 'clusterjobs: step %s starts\n' "$name"
  trap '' PIPE
  (
    trap - PIPE
    [[ ${FUNCNAME[1]} == run_ranks ]] || exec "$@"
    trap '' TERM # the ranks may be saving
    "$@"
  ) <&0 &
  pid=$!
  if [[ ${FUNCNAME[1]} == run_ranks ]]; then ranks=$pid; else child=$pid; fi
  while status=0; wait "$pid" || status=$?; kill -0 "$pid" 2>/dev/null; do :; done
  trap : PIPE
  ranks='' child=''
  [[ -n ${reason#after_failure} ]] || ask_slurm_for_reason
  if (( status )) || [[ -n ${reason#after_failure} ]]; then
    printf 'clusterjobs: step %s ended with exit code %s\n' "$name" "$status" >&2
    exit "$status"
  fi
  if [[ -n $creates && ! -e $creates ]]; then
    printf 'clusterjobs: step %s ended with exit code 0 and has not made %s\n' "$name" "$creates" >&2
    exit 1
  fi
}

# ======== sweep-command
# ==== 8 points of the sweep prompts ===========================================================

read_point() { # INDEX; `export -n`: sbatch's caller may have exported such a name
  point_index=$1
  case $1 in
    #         point_name                                                                  command_6  args_1    prompt_2                           env_prompt                            content
    0) set -- 0000-PROMPT=it_s_____date___at__hostname_,command.6=1,args.1=0.00-91ab29f4  1          0.008767  'it'\''s "$(date)" at `hostname`'  'it'\''s \"$$(date)\" at `hostname`'  f0a47cac97a63ba9 ;;
    1) set -- 0001-PROMPT=two_lines,_and____PROMPT_,command.6=2,args.1=0.008767-aaabb94a  2          0.008767  $'two\nlines, and ${PROMPT}'       'two\nlines, and $${PROMPT}'          cde165b4be024038 ;;
    2) set -- 0002-PROMPT=,command.6=10,args.1=0.008767-7ee0e17e                          10         0.008767  ''                                 ''                                    e40037fb5d48a98e ;;
    3) set -- 0003-PROMPT=Gr__e_aus___HOME__END,command.6=20,args.1=0.008767-f64344a3     20         0.008767  'Grüße aus $HOME; END'             'Gr\u00fc\u00dfe aus $$HOME; END'     162d4060dc187ab8 ;;
    4) set -- 0004-PROMPT=it_s_____date___at__hostname_,command.6=1,args.1=0.05-07cd2034  1          0.05866   'it'\''s "$(date)" at `hostname`'  'it'\''s \"$$(date)\" at `hostname`'  4fb60ba805b068c7 ;;
    5) set -- 0005-PROMPT=two_lines,_and____PROMPT_,command.6=2,args.1=0.05866-7c33446c   2          0.05866   $'two\nlines, and ${PROMPT}'       'two\nlines, and $${PROMPT}'          e496737f1e5a07ef ;;
    6) set -- 0006-PROMPT=,command.6=10,args.1=0.05866-265ea4e0                           10         0.05866   ''                                 ''                                    afe74528178e81c0 ;;
    7) set -- 0007-PROMPT=Gr__e_aus___HOME__END,command.6=20,args.1=0.05866-4eaf4fa7      20         0.05866   'Grüße aus $HOME; END'             'Gr\u00fc\u00dfe aus $$HOME; END'     f09cf719a3c47afd ;;
    *) return 1 ;;
  esac
  export -n point_name=$1 command_6=$2 args_1=$3 prompt_2=$4 env_prompt=$5 content=$6
}

# ======== sweep-packed
# ==== 10 points of the sweep lr ===============================================================

read_point() { # TASK.SLOT; `export -n`: sbatch's caller may have exported such a name
  case $1 in
    #           point_name                                  lr    optimizer        content           point_index
    0.0) set -- 0000-lr=1e-2,optimizer=adam-81031272        1e-2  adam             1bf848de02696410  0 ;;
    0.1) set -- 0001-lr=1e-2,optimizer=it_s__mine-4469e377  1e-2  'it'\''s $mine'  67f3499bd8e18d76  1 ;;
    0.2) set -- 0002-lr=3e-3,optimizer=adam-024e7ae8        3e-3  adam             8af2821d876c6685  2 ;;
    0.3) set -- 0003-lr=3e-3,optimizer=it_s__mine-6143e61c  3e-3  'it'\''s $mine'  8e5cf4b831aa7bd3  3 ;;
    0.4) set -- 0004-lr=1e-3,optimizer=adam-fa0ac8e7        1e-3  adam             8c37c2f982ead065  4 ;;
    0.5) set -- 0005-lr=1e-3,optimizer=it_s__mine-7c0560f6  1e-3  'it'\''s $mine'  c9cd4c27fd0bdc3d  5 ;;
    0.6) set -- 0006-lr=3e-4,optimizer=adam-7392fe83        3e-4  adam             844a00bc9f07b149  6 ;;
    0.7) set -- 0007-lr=3e-4,optimizer=it_s__mine-a527a669  3e-4  'it'\''s $mine'  b6d12013be44af0c  7 ;;
    1.0) set -- 0008-lr=1e-4,optimizer=adam-8ab230c2        1e-4  adam             e92173520a7292d2  8 ;;
    1.1) set -- 0009-lr=1e-4,optimizer=it_s__mine-fe09f6fa  1e-4  'it'\''s $mine'  fc253c48bd499c91  9 ;;
    *) return 1 ;;
  esac
  export -n point_name=$1 lr=$2 optimizer=$3 content=$4 point_index=$5
}

run_pack() { # starts this script once for each point of the task, and waits for all of them
  local slot signal status result=0
  local names=() folders=()
  slurm_job_id=${SLURM_ARRAY_JOB_ID:?submit it as an array}_$SLURM_ARRAY_TASK_ID pids=() reason=''
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "signal_points $signal" "$signal"; done
  trap : PIPE
  for slot in {0..7}; do
    read_point "$SLURM_ARRAY_TASK_ID.$slot" || break # the last task may have fewer points
    names+=("$point_name") folders+=("/fsx/logs/lr/$point_name/$SLURM_JOB_ID")
    printf 'clusterjobs: %s writes to %s/job.log\n' "$point_name" "${folders[-1]}"
    rm -f -- "${folders[-1]}/restart" # of an earlier attempt
    "$BASH" "$0" "$SLURM_ARRAY_TASK_ID.$slot" > /dev/null & # errors before job.log exists go to stderr
    pids+=("$!")
  done
  (( ${#pids[@]} )) || fail "no points for task $SLURM_ARRAY_TASK_ID"
  for slot in "${!pids[@]}"; do
    while status=0; wait "${pids[slot]}" || status=$?; kill -0 "${pids[slot]}" 2>/dev/null; do :; done
    printf 'clusterjobs: %s ended with exit code %s\n' "${names[slot]}" "$status"
    (( result )) || result=$status # the exit code of the first point that failed
  done
  for slot in "${!folders[@]}"; do
    [[ -e ${folders[slot]}/restart ]] || continue
    requeue || true # `skip_if_ended` leaves out the other points
    break
  done
  exit "$result"
}

signal_points() { # NUMBER: passes the signal on to all points
  kill -"$1" "${pids[@]}" 2>/dev/null || true
}

skip_if_ended() { # a requeue starts all points again: exit if this one ended in an earlier attempt
  (( attempt == 1 )) || [[ ! -L $job_dir/ended ]] || exit "$(readlink -- "$job_dir/ended")"
  rm -f -- "$job_dir/ended"
}

end_point() { # records whether this point runs again after a requeue; a cancelled one does
  [[ $decision != restart ]] || { : > "$job_dir/restart"; return; }
  [[ $reason == cancelled ]] || ln -sfn -- "$status" "$job_dir/ended" # a full disk has room for a link
}

signal_step_of_point() { # SIGNAL: only to the step of this point
  local step
  step=$(squeue --noheader --steps --job="$slurm_job_id" --format='%i %j' |
    awk -v name="$point_name" '$2 == name { print $1 }')
  [[ -n $step ]] && scancel --signal="$1" "$step"
}

signal_ranks() { # SIGNAL
  for _ in 1 2 3; do
    if signal_step_of_point "$1"; then return 0; fi
    sleep 2 # the controller may be restarting
  done
  return 0
}

start_job() { # JOB_FOLDER
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  umask go-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job # the umask is for the ranks, too
  skip_if_ended
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  background_pids=()
  budgets=(--budget=time_limit=5 --budget=failure=0 --budget=node_failure=3 --budget=stalled=3)
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  trap on_time_limit USR1
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  write_plan || true # a full disk
  unpack_programs \
    attempt.py attempt_files.py || fail "cannot write into $job_dir"
}

finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  trap 'reason=cancelled' TERM
  kill -- "${background_pids[@]}" 2>/dev/null
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  trap 'requeue() { return 1; }' TERM # record and exit code are those of this reason: a later SIGTERM only prevents the requeue
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record_and_decide
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  end_point
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

: "${SLURMD_NODENAME:?this is a batch script: submit it with sbatch}"
[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" carried start_again.sh)"; exit 1; } # without what sbatch's caller exported
(( $# )) || run_pack # Slurm starts the script without arguments: run all points of this task
main "$@"
exit # programs follow

: <<'end of make_safe_folder.sh'
(the text of make_safe_folder.sh)
end of make_safe_folder.sh
: <<'end of first_exit_code.sh'
(the text of first_exit_code.sh)
end of first_exit_code.sh
: <<'end of attempt.py'
(the text of attempt.py)
end of attempt.py
: <<'end of attempt_files.py'
(the text of attempt_files.py)
end of attempt_files.py


decide() { # begin | end OPTION...: by attempt.py, which also writes the record; "" if it cannot run
  decision=''
  read -r -t 120 decision < <(
    trap '' INT TERM
    python=$(find_python) || exit
    exec "$python" -BEsS "$job_dir/attempt.py" "$@" --folder="$job_dir" --attempt="$attempt" \
      "${budgets[@]}" "--checkpoints=/fsx/checkpoints/${point_label-}"
  ) || true
}

# ======== sweep-shapes
# job-1.sh:
# ==== 3 points of the sweep scaling ===========================================================

read_point() { # INDEX; `export -n`: sbatch's caller may have exported such a name
  point_index=$1
  case $1 in
    #         point_name                    seed  content
    0) set -- 0000-nodes=1,seed=1-9013b406  1     73fb621948bf6ebb ;;
    1) set -- 0001-nodes=1,seed=2-e7cb576a  2     3a4cf0ef8832144e ;;
    2) set -- 0002-nodes=1,seed=3-e59a5e1d  3     7f31d37c1098e8a7 ;;
    *) return 1 ;;
  esac
  export -n point_name=$1 seed=$2 content=$3
}

# job-2.sh:
# ==== 3 points of the sweep scaling ===========================================================

read_point() { # INDEX; `export -n`: sbatch's caller may have exported such a name
  point_index=$1
  case $1 in
    #         point_name                    seed  content
    3) set -- 0003-nodes=2,seed=1-18d6fb79  1     d133350a7403b581 ;;
    4) set -- 0004-nodes=2,seed=2-cacafe63  2     1f44dfb695727ddd ;;
    5) set -- 0005-nodes=2,seed=3-02e11648  3     5ab3e73249a2c0ad ;;
    *) return 1 ;;
  esac
  export -n point_name=$1 seed=$2 content=$3
}

# job-1.sh, job-2.sh:
count_failures() { # holds the pending tasks once 2 points have failed (max_failed)
  local failed="/fsx/logs/scaling/failed/$SLURM_ARRAY_JOB_ID" pending
  case $reason:$decision in completed* | cancelled* | bad_node* | *:restart) return 0 ;; esac
  mkdir -p -- "$failed" && : > "$failed/$point_name"
  (( $(find "$failed" -type f | wc -l) >= 2 )) || return 0
  # Hold only pending tasks: a running one would be held at its next requeue.
  pending=$(SLURM_BITSTR_LEN=0 squeue --noheader --states=PENDING --job="$SLURM_ARRAY_JOB_ID" --format=%K |
    sed 's/%.*//' | paste -sd,) # 3-6%2: at most two at a time
  [[ -n $pending ]] || return 0
  pending="${SLURM_ARRAY_JOB_ID}_[$pending]"
  printf 'clusterjobs: 2 points have failed (max_failed), so the pending ones are held: `scontrol release %s` starts them\n' "$pending"
  scontrol uhold "$pending"
}

# job-1.sh, job-2.sh:
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  trap 'reason=cancelled' TERM
  kill -- "${background_pids[@]}" 2>/dev/null
  if [[ -n $child ]]; then
    kill -- "$child" 2>/dev/null
    timeout 10 tail --pid="$child" -f /dev/null
  fi
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  trap 'requeue() { return 1; }' TERM # record and exit code are those of this reason: a later SIGTERM only prevents the requeue
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record_and_decide
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  [[ $decision != restart ]] || requeue || decision=stop
  count_failures
  finish_export
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# job-3.sh:
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  trap 'reason=cancelled' TERM
  kill -- "${background_pids[@]}" 2>/dev/null
  if [[ -n $child ]]; then
    kill -- "$child" 2>/dev/null
    timeout 10 tail --pid="$child" -f /dev/null
  fi
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  trap 'requeue() { return 1; }' TERM # record and exit code are those of this reason: a later SIGTERM only prevents the requeue
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record_and_decide
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  [[ $decision != restart ]] || requeue || decision=stop
  finish_export
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# job-1.sh:
watch_ranks() { # stops ranks that have stalled, and a launcher whose ranks are gone
  local python
  trap '' INT; python=$(find_python) || exit # at SIGINT, Python would print a traceback
  exec "$python" -BEsS "$job_dir/watchdog.py" --ranks="$ranks" --folder="$job_dir" --job="$slurm_job_id" \
    --attempt="$attempt" --nodes=1 "--checkpoints=/fsx/checkpoints/scaling/${point_label-}"
}

# job-2.sh:
watch_ranks() { # stops ranks that have stalled, and a launcher whose ranks are gone
  local python
  trap '' INT; python=$(find_python) || exit # at SIGINT, Python would print a traceback
  exec "$python" -BEsS "$job_dir/watchdog.py" --ranks="$ranks" --folder="$job_dir" --job="$slurm_job_id" \
    --attempt="$attempt" --nodes=2 "--checkpoints=/fsx/checkpoints/scaling/${point_label-}"
}

# job-3.sh:
watch_ranks() { # stops ranks that have stalled, and a launcher whose ranks are gone
  local python
  trap '' INT; python=$(find_python) || exit # at SIGINT, Python would print a traceback
  exec "$python" -BEsS "$job_dir/watchdog.py" --ranks="$ranks" --folder="$job_dir" --job="$slurm_job_id" \
    --attempt="$attempt" --nodes=4 "--checkpoints=/fsx/checkpoints/scaling/${point_label-}"
}

# ======== log-of-all-points
# ==== 4 points of the sweep points ============================================================

read_point() { # INDEX; `export -n`: sbatch's caller may have exported such a name
  point_index=$1
  case $1 in
    #         point_name                    lr    seed  content
    0) set -- 0000-lr=1e-3,seed=1-6bb97be6  1e-3  1     69e0f279d4579582 ;;
    1) set -- 0001-lr=1e-3,seed=2-2d2812cb  1e-3  2     4b9b538b729d77c9 ;;
    2) set -- 0002-lr=1e-4,seed=1-4474ecfb  1e-4  1     b118425b3f08f9e5 ;;
    3) set -- 0003-lr=1e-4,seed=2-1294d75c  1e-4  2     a2006b9a31670b97 ;;
    *) return 1 ;;
  esac
  export -n point_name=$1 lr=$2 seed=$3 content=$4
}

start_job() { # JOB_FOLDER ARGUMENT...
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  [[ ! -f /dev/stdout ]] || chmod go= /dev/stdout || fail "cannot protect Slurm's copy of the log"
  umask go-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job # the umask is for the ranks, too
  { chmod go= -- "$job_dir" && (umask 077 && : >> "$job_dir/job.log"); } || fail "cannot make $job_dir private"
  log_copy="/fsx/logs/lr=$lr.log"
  with_timeout make_log_copy "$log_copy"
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log" "$log_copy"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  write_plan || true # a full disk
  (( $# == 1 )) || fail "unexpected arguments: ${*:2} (job_arguments: true in the spec allows them)"
}

make_log_copy() { # FILE: in a folder where nobody else can put a link in its place
  run_carried make_safe_folder.sh "${1%/*}" shared || exit
  [[ ! -e $1 || -f $1 ]] || fail "$1 is not a regular file (logs.copy)" # a FIFO may block the log for ever
  { (umask 077 && : >> "$1") && chmod go= -- "$1"; } || fail "cannot make $1 private"
}

# ======== huggingface-torchrun-zero
newest_checkpoint() { # FOLDER: prints its newest complete checkpoint-N; the Trainer writes its state last
  local name
  while read -r name; do
    [[ $(tail -c 2 -- "$1/$name/trainer_state.json" 2>/dev/null) != '}' ]] || { printf '%s\n' "$name"; return; }
  done < <(cd -- "$1" 2>/dev/null && printf '%s\n' checkpoint-* | grep -x 'checkpoint-[0-9]\+' | sort -rV)
}

decide() { # begin | end OPTION...: by attempt.py, which also writes the record; "" if it cannot run
  decision=''
  read -r -t 120 decision < <(
    trap '' INT TERM
    python=$(find_python) || exit
    exec "$python" -BEsS "$job_dir/attempt.py" "$@" --folder="$job_dir" --attempt="$attempt" \
      "${budgets[@]}" --checkpoints=/fsx/checkpoints/sft --newest="$(newest_checkpoint /fsx/checkpoints/sft)"
  ) || true
}

# ======== accelerate-cpu
export HOME=${HOME:-~} USER=${USER:-${SLURM_JOB_USER-}} PATH="${PATH:+$PATH:}"/opt/slurm/bin:/usr/bin:/bin
kept='' others='' dropped=() # patterns of names: what this job has from Slurm; what changes bash or is another job's
kept+='ARRAY_.*|CLUSTER_NAME|CONF|CONF_SERVER|CPUS_ON_NODE|GPUS_ON_NODE|GTIDS|JOB_.*|JOBID|NNODES|NODEID|NODELIST'
kept+='|NPROCS|NTASKS|RESTART_COUNT|SUBMIT_.*|TASKS_PER_NODE|TASK_PID|TOPOLOGY_.*|WORKING_CLUSTER|CPUS_PER_TASK'
kept+='|MEM_PER_NODE|NTASKS_PER_NODE|SPANK_.*'
others+='RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|CUDA_VISIBLE_DEVICES|BASH_ENV'
others+='|BASHOPTS|POSIXLY_CORRECT|SECONDS|SHELLOPTS|BASH_COMPAT|CDPATH|EXECIGNORE|FUNCNEST|GLOBIGNORE|TMOUT|SLURM_.*'
others+='|SRUN_.*|TORCHELASTIC_.*|OMPI_COMM_.*|PMI.*|SQUEUE_.*|SCANCEL_.*|SCONTROL_.*|ACCELERATE_.*|FSDP_.*'
while IFS='=' read -r -d '' name _; do
  [[ ! $name =~ ^($others)$ || $name =~ ^SLURM_($kept)$ ]] || dropped+=(-u "$name")
  [[ $name != BASH_FUNC_*%% ]] || ! type "${name:10:-2}" &> /dev/null || dropped+=(-u "$name") # it hides a command
done < /proc/self/environ
[[ -d ${TMPDIR:-/tmp} && -w ${TMPDIR:-/tmp} ]] || dropped+=(-u TMPDIR) # a folder of the login node
exec env "${dropped[@]}" "$BASH" "$0" "$@"

# ======== lightning-p4d
export HOME=${HOME:-~} USER=${USER:-${SLURM_JOB_USER-}} PATH="${PATH:+$PATH:}"/opt/slurm/bin:/usr/bin:/bin
kept='' others='' dropped=() # patterns of names: what this job has from Slurm; what changes bash or is another job's
kept+='ARRAY_.*|CLUSTER_NAME|CONF|CONF_SERVER|CPUS_ON_NODE|GPUS_ON_NODE|GTIDS|JOB_.*|JOBID|NNODES|NODEID|NODELIST'
kept+='|NPROCS|NTASKS|RESTART_COUNT|SUBMIT_.*|TASKS_PER_NODE|TASK_PID|TOPOLOGY_.*|WORKING_CLUSTER|CPUS_PER_TASK'
kept+='|GPUS_PER_NODE|MEM_PER_NODE|NTASKS_PER_NODE|SPANK_.*'
others+='RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|BASH_ENV|BASHOPTS|POSIXLY_CORRECT'
others+='|SECONDS|SHELLOPTS|BASH_COMPAT|CDPATH|EXECIGNORE|FUNCNEST|GLOBIGNORE|TMOUT|SLURM_.*|SRUN_.*|TORCHELASTIC_.*'
others+='|OMPI_COMM_.*|PMI.*|SQUEUE_.*|SCANCEL_.*|SCONTROL_.*|PL_TRAINER_.*'
while IFS='=' read -r -d '' name _; do
  [[ ! $name =~ ^($others)$ || $name =~ ^SLURM_($kept)$ ]] || dropped+=(-u "$name")
  [[ $name != BASH_FUNC_*%% ]] || ! type "${name:10:-2}" &> /dev/null || dropped+=(-u "$name") # it hides a command
done < /proc/self/environ
[[ -d ${TMPDIR:-/tmp} && -w ${TMPDIR:-/tmp} ]] || dropped+=(-u TMPDIR) # a folder of the login node
exec env "${dropped[@]}" "$BASH" "$0" "$@"

: "${SLURMD_NODENAME:?this is a batch script: submit it with sbatch}"
[[ $- != *p* ]] || { unset EXECIGNORE; eval "$(PATH="${PATH:+$PATH:}/usr/bin:/bin" carried start_again.sh)"; exit 1; } # without what sbatch's caller exported
main "$@"
exit # programs follow

: <<'end of make_safe_folder.sh'
(the text of make_safe_folder.sh)
end of make_safe_folder.sh
: <<'end of first_exit_code.sh'
(the text of first_exit_code.sh)
end of first_exit_code.sh
: <<'end of attempt.py'
(the text of attempt.py)
end of attempt.py
: <<'end of attempt_files.py'
(the text of attempt_files.py)
end of attempt_files.py
: <<'end of lightning_callback.py'
(the text of lightning_callback.py)
end of lightning_callback.py
: <<'end of watchdog.py'
(the text of watchdog.py)
end of watchdog.py
: <<'end of watchdog_ranks.py'
(the text of watchdog_ranks.py)
end of watchdog_ranks.py


decide() { # begin | end OPTION...: by attempt.py, which also writes the record; "" if it cannot run
  decision=''
  read -r -t 120 decision < <(
    trap '' INT TERM
    python=$(find_python) || exit
    exec "$python" -BEsS "$job_dir/attempt.py" "$@" --folder="$job_dir" --attempt="$attempt" \
      "${budgets[@]}" --checkpoints=/fsx/checkpoints/vit --marker=/fsx/checkpoints/vit/latest.txt
  ) || true
}

# ======== torchtitan-p5
on_time_limit() { # USR1, 240 s before the time limit or up to a minute earlier
  [[ $reason != completed ]] || return 0
  reason=time_limit
  [[ -n $ranks ]] || { on_signal 10; return; }
  printf 'clusterjobs: got SIGUSR1: the time limit is near: the ranks are stopped in 180 s\n'
  stop_ranks_after 180 > /dev/null 2>&1 &
  background_pids+=("$!")
}

# ======== fairseq-hydra-p4d
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  if [[ -n $child ]]; then
    kill -- "$child" 2>/dev/null
    timeout 10 tail --pid="$child" -f /dev/null
  fi
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# ======== jax-p4d
export HOME=${HOME:-~} USER=${USER:-${SLURM_JOB_USER-}} PATH="${PATH:+$PATH:}"/opt/slurm/bin:/usr/bin:/bin
kept='' others='' dropped=() # patterns of names: what this job has from Slurm; what changes bash or is another job's
kept+='ARRAY_.*|CLUSTER_NAME|CONF|CONF_SERVER|CPUS_ON_NODE|GPUS_ON_NODE|GTIDS|JOB_.*|JOBID|NNODES|NODEID|NODELIST'
kept+='|NPROCS|NTASKS|RESTART_COUNT|SUBMIT_.*|TASKS_PER_NODE|TASK_PID|TOPOLOGY_.*|WORKING_CLUSTER|CPUS_PER_TASK'
kept+='|GPUS_PER_NODE|MEM_PER_NODE|NTASKS_PER_NODE|SPANK_.*'
others+='RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|NODE_RANK|GROUP_RANK|ROLE_RANK|BASH_ENV|BASHOPTS|POSIXLY_CORRECT'
others+='|SECONDS|SHELLOPTS|BASH_COMPAT|CDPATH|EXECIGNORE|FUNCNEST|GLOBIGNORE|TMOUT|SLURM_.*|SRUN_.*|TORCHELASTIC_.*'
others+='|OMPI_COMM_.*|PMI.*|SQUEUE_.*|SCANCEL_.*|SCONTROL_.*|JAX_COORDINATOR_.*|JAX_LOCAL_DEVICE_IDS.*|JAX_NUM_PROC.*'
others+='|JAX_PROCESS_ID.*'
while IFS='=' read -r -d '' name _; do
  [[ ! $name =~ ^($others)$ || $name =~ ^SLURM_($kept)$ ]] || dropped+=(-u "$name")
  [[ $name != BASH_FUNC_*%% ]] || ! type "${name:10:-2}" &> /dev/null || dropped+=(-u "$name") # it hides a command
done < /proc/self/environ
[[ -d ${TMPDIR:-/tmp} && -w ${TMPDIR:-/tmp} ]] || dropped+=(-u TMPDIR) # a folder of the login node
exec env "${dropped[@]}" "$BASH" "$0" "$@"

on_time_limit() { # USR1, 360 s before the time limit or up to a minute earlier
  [[ $reason != completed ]] || return 0
  reason=time_limit
  [[ -n $ranks ]] || { on_signal 10; return; }
  printf 'clusterjobs: got SIGUSR1: the time limit is near: the ranks have 300 s to save and end\n'
  : > "$job_dir/stop" || true # on a full disk the ranks are stopped below
  signal_ranks TERM
  stop_ranks_after 300 > /dev/null 2>&1 &
  background_pids+=("$!")
}

# ======== horovod-own-sshd-port
launch_over_ssh() { # ssh_serve.py runs on every node, and the launcher on the first
  python3 "$job_dir/ssh_settings.py" 12345 "$HOME/.ssh/id_ed25519" >&"$lifeline" || return
  srun "${srun_options[@]}" bash -c '
    exec python3 "$@"' node \
    "$job_dir/ssh_serve.py" "$ssh_dir" "${nodes[@]}" -- "${launcher[@]}" <&"$lifeline"
}

# ======== everything
finish() {
  local status=$?; (( SECONDS >= 0 )) || SECONDS=0 # the clock was set back
  [[ $BASHPID == "$$" ]] || exit "$status" # bash runs this too in a child that a signal ends at its start
  set +e; trap - EXIT; trap '' {1..16} {24..31} {34..64} # each step is tried, even if one before it fails
  kill -- "${background_pids[@]}" 2>/dev/null
  if [[ -n $child ]]; then
    kill -- "$child" 2>/dev/null
    timeout 10 tail --pid="$child" -f /dev/null
  fi
  [[ ${reason:=failure} != *failure ]] || ask_slurm_for_reason
  case $reason in time_limit) status=124 ;; cancelled) status=143 ;; completed) status=0 ;; *) (( status )) || status=1 ;; esac # 0 is for completed alone
  record
  echo "clusterjobs: job $SLURM_JOB_ID ended with exit code $status after $SECONDS s: $reason"
  exec >&- 2>&-; timeout 10 tail --pid="$log_writer" -f /dev/null # the log is complete once its writer has read the end
  exit "$status"
}

# ======== secrets
start_job() { # JOB_FOLDER ARGUMENT...
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  [[ ! -f /dev/stdout ]] || chmod go= /dev/stdout || fail "cannot protect Slurm's copy of the log"
  umask go-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job # the umask is for the ranks, too
  { chmod go= -- "$job_dir" && (umask 077 && : >> "$job_dir/job.log"); } || fail "cannot make $job_dir private"
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  { carried plan.json > "$job_dir/plan.json.new" && mv -f -- "$job_dir"/plan.json{.new,}; } || true # a full disk
  [[ -z ${SLURM_ARRAY_JOB_ID-} ]] || fail 'planned as one job, got an array (the spec may have `sbatch: {array: 0-3}`)'
  (( $# == 1 )) || fail "unexpected arguments: ${*:2} (job_arguments: true in the spec allows them)"
}

# ======== log-of-all-jobs
start_job() { # JOB_FOLDER ARGUMENT...
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  umask go-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job # the umask is for the ranks, too
  log_copy=/fsx/logs/cumulative.log
  with_timeout make_log_copy "$log_copy"
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log" "$log_copy"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  { carried plan.json > "$job_dir/plan.json.new" && mv -f -- "$job_dir"/plan.json{.new,}; } || true # a full disk
  [[ -z ${SLURM_ARRAY_JOB_ID-} ]] || fail 'planned as one job, got an array (the spec may have `sbatch: {array: 0-3}`)'
  (( $# == 1 )) || fail "unexpected arguments: ${*:2} (job_arguments: true in the spec allows them)"
}

make_log_copy() { # FILE: in a folder where nobody else can put a link in its place
  run_carried make_safe_folder.sh "${1%/*}" shared || exit
  [[ ! -e $1 || -f $1 ]] || fail "$1 is not a regular file (logs.copy)" # a FIFO may block the log for ever
  : >> "$1" || fail "cannot write to $1"
}

# ======== newest-checkpoint-as-an-argument
latest_checkpoint() { # FOLDER [MARKER]: prints the path of the newest whole checkpoint
  local python
  python=$(find_python) && "$python" -BEsS "$job_dir/whole_checkpoint.py" latest "$@"
}

# ======== a-trusted-group
start_job() { # JOB_FOLDER ARGUMENT...
  job_dir=$1 attempt=$((${SLURM_RESTART_COUNT:-0} + 1)) reason='' ranks='' # why it ends; the ranks, while they run
  umask o-w; with_timeout run_carried make_safe_folder.sh "$job_dir" job ml-team prof # the umask is for the ranks, too
  exec > >(trap '' {1..16} {24..31} {34..64}; while tee -a -- "$job_dir/job.log"; (( $? > 128 )); do :; done) 2>&1
  log_writer=$! # a tee that is killed starts again
  [[ -z ${!PYTHON*} ]] || { echo "clusterjobs: unset, from the calling shell: ${!PYTHON*}"; unset "${!PYTHON@}"; }
  slurm_job_id=${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID} # not the whole array
  trap finish EXIT; trap : PIPE # SIGPIPE ends nothing; every signal that would end the script without `finish`:
  for signal in {1..3} 5 6 10 12 {14..16} {24..27} {29..31} {34..64}; do trap "on_signal $signal" "$signal"; done
  (( attempt > 1 )) || rm -f -- "$job_dir"/{attempts.jsonl,started} # a new cluster reuses job ids
  printf '%s %(%s)T\n' "$attempt" -1 >> "$job_dir/started" || true # an attempt without a record has been lost
  { carried plan.json > "$job_dir/plan.json.new" && mv -f -- "$job_dir"/plan.json{.new,}; } || true # a full disk
  [[ -z ${SLURM_ARRAY_JOB_ID-} ]] || fail 'planned as one job, got an array (the spec may have `sbatch: {array: 0-3}`)'
  (( $# == 1 )) || fail "unexpected arguments: ${*:2} (job_arguments: true in the spec allows them)"
}

# ======== values-that-commands-print
compute_value() { # NAME COMMAND...: what the command prints is $result, the same in all attempts
  local output=$job_dir/value.$1
  if (( attempt == 1 )) || [[ ! -e $output ]]; then
    run_child bash -c 'exec "${@:2}" > "$1"' value "$output.new" "${@:2}"
    (( child_status == 0 )) || { cat -- "$output.new"; fail "the command of the value $1 ended with exit code $child_status"; }
    grep -q '[^[:space:]]' "$output.new" || fail "the command of the value $1 printed nothing"
    (( $(wc -c < "$output.new") < 131000 )) || fail "the command of the value $1 printed more than Linux allows in an argument"
    mv -f -- "$output.new" "$output"
  fi
  result=$(tr -d '\0' < "$output")
}
