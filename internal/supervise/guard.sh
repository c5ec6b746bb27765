# Leads the process group of a user's command, and ends the group when the process that asked for it is gone.
#   $1 seconds from SIGTERM to SIGKILL
# fd 3: a pipe whose write end only our owner has. It writes the command's pid; end of file = it died.
# When the command ends otherwise, our owner kills the whole group, us too.
trap '' HUP INT QUIT TERM USR1 USR2 PIPE TSTP TTIN TTOU
read -r pid <&3
read -r _ <&3
kill -TERM 0
seconds=0
while [ "$seconds" -lt "$1" ] && [ -n "$pid" ] && kill -0 "$pid"; do
	sleep 1
	seconds=$((seconds + 1))
done
kill -KILL 0
