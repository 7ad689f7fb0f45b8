cat <<END
hello
