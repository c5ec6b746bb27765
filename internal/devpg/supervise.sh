# Runs one Postgres server and ends it when the process that asked for it is gone.
#   $1 postgres  $2 data directory  $3 log file  $4 seconds of fast shutdown before the immediate one  $5… directories to
#   remove when our owner died without a word
# fd 3: a pipe whose write end only our owner has; end of file = it died, a line = it is done with us.
# fd 4: the directory's lock, inherited by the server so that it's held as long as any of its processes lives.
# stdout: "started <pid>", then "exited <status>".
postgres=$1 data=$2 log=$3 grace=$4
shift 4

"$postgres" -D "$data" 3<&- </dev/null >>"$log" 2>&1 &
pid=$!

# Our owner decides, not a signal to the whole process group or a closed terminal; and saying "exited" to a dead owner
# must not kill us before we have cleaned up. Set after the fork: the server must not inherit it.
trap '' HUP INT TERM PIPE

(
	if read -r _ <&3; then exit 0; fi
	seconds=0
	# A signal that comes before the server has its handlers is lost, hence each second again.
	while kill -0 "$pid"; do
		if [ "$seconds" -lt "$grace" ]; then kill -INT "$pid"
		elif [ "$seconds" -lt $((grace + 15)) ]; then kill -QUIT "$pid"
		else kill -KILL "$pid"
		fi
		sleep 1
		seconds=$((seconds + 1))
	done
	exit 3
) >/dev/null 2>&1 4>&- &
watch=$!

echo "started $pid"
wait "$pid"
echo "exited $?"
wait "$watch"
if [ $? -eq 3 ] && [ $# -gt 0 ]; then exec rm -rf -- "$@"; fi
