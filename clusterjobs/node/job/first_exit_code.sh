# Prints the exit code of the rank that failed first: srun ends with that of the ranks that it killed.
#
#   first_exit_code.sh LOG BYTES STATUS
#
# srun has logged it after the first BYTES of LOG. STATUS is printed if it has not.

# The writer of the log may be late, hence `-f`.
line=$(grep -am 1 '^srun: error: .*: tasks\? [0-9,-]*: ' < <(timeout 5 tail -c "+$(($2 + 1))" -f -- "$1" 2>&-))
case ${line##*: } in
  'Exited with exit code '*) echo "${line##* }" ;;
  Illegal*) echo 132 ;;
  Abort*) echo 134 ;;
  Bus*) echo 135 ;;
  Float*) echo 136 ;;
  Killed* | Out*) echo 137 ;;
  Segment*) echo 139 ;;
  *) echo "$3" ;;
esac
