# Before anything changes, what undoes it is written to clusterjobs-undo.sh: `sh clusterjobs-undo.sh`.
# It gives users, accounts and the cluster the QOS and limits back that they have now.
undo=clusterjobs-undo.sh
if [ -e "$undo" ]; then
  echo "$undo is from an earlier export: run it first, or keep it elsewhere" >&2
  exit 1
fi
{
  cat <<'TOUCHED'
-- TOUCHED
TOUCHED
  sacctmgr -nP show qos format=name | sed 's/^/had|qos|/'
  sacctmgr -nP show associations WOPLimits WithRawQOSLevel \
    format=cluster,account,user,partition,qos,defaultqos,maxsubmitjobs,maxtresperjob,maxtrespernode,maxtresminsperjob,maxwall,grptres \
    | sed 's/^/had|association|/'
} | awk -F'|' '
  function value(name, found, none) { return " " name "=" (found == "" ? none : found) }
  $1 != "had" { key = $1 "|" $2 "|" $3 "|" $4; clear[key] = clear[key] " " $5; next }
  $2 == "qos" { known["qos|" $3 "||"] = 1; next }
  {
    key = $5 != "" ? "user|" $5 "|" $4 "|" $6 : $4 == "root" ? "cluster|||" : "account|" $4 "||"
    known[key] = seen = 1
    every = "user|" $5 "|" $4 "|" # sacctmgr also changes what such a user has for partitions
    if (!(key in clear) && !(every in clear)) next
    if ($5 != "") {
      where = "name=" $5 " account=" $4 " cluster=" $3 ($6 == "" ? "" : " partition=" $6)
      sets = value("qos", $7, "\"\"") value("defaultqos", $8, "-1") value("maxsubmitjobs", $9, "-1")
      line = "sacctmgr -i modify user where " where " set"
      if ($7 ~ /^[,+-]/) line = line " qos=\"\" defaultqos=-1\n" line # else it is added
      line = line sets "\n"
      if ($6 == "") users = users line; else partitions = partitions line
      next
    }
    whom = $4 == "root" ? "cluster where name=" $3 : "account where name=" $4 " cluster=" $3
    print "sacctmgr -i modify " whom " set" clear[key]
    sets = ($10 == "" ? "" : value("MaxTRESPerJob", $10)) ($11 == "" ? "" : value("MaxTRESPerNode", $11))
    sets = sets ($12 == "" ? "" : value("MaxTRESMinsPerJob", $12)) ($13 == "" ? "" : value("MaxWall", $13))
    sets = sets ($14 == "" ? "" : value("GrpTRES", $14))
    if (sets != "") print "sacctmgr -i modify " whom " set" sets
  }
  END {
    if (!seen) exit 1
    for (key in clear) {
      split(key, one, "|")
      if (one[1] == "user" && !(key in known))
        print "sacctmgr -i delete user where name=" one[2] " account=" one[3] " partition=" one[4]
    }
    printf "%s%s", users, partitions
    for (key in clear) {
      split(key, one, "|")
      if (one[1] == "qos" && !(key in known)) print "sacctmgr -i delete qos where name=" one[2]
    }
    print "mv \"$0\" \"$0.done\""
  }
' >"$undo" || { rm -f "$undo"; echo "sacctmgr shows no associations: nothing was changed" >&2; exit 1; }
