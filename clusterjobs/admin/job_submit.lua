-- The rules of clusterjobs as a job_submit plugin of Slurm. Written by `clusterjobs policy export
-- --lua`: change policy.yaml, and export again.
--
-- To use it, put it beside slurm.conf under the name job_submit.lua, add JobSubmitPlugins=lua to
-- slurm.conf, and run `scontrol reconfigure`. A job is known by its directives alone.
-- Sources: https://slurm.schedmd.com/job_submit_plugins.html, and Slurm 22.05, 24.11 and 26.05.

-- RULES

-- ------------------------------------------------------------------ values of a job

local UNSET = { [65534] = true, [65535] = true, [4294967294] = true, [4294967295] = true }

local function text(value)
   if value == nil or value == "" or value == "(null)" then return nil end
   return tostring(value)
end

local function number(value)
   if type(value) ~= "number" or UNSET[value] or value >= 18446744073709551614 then return nil end
   return value
end

local function split(list)
   local found = {}
   for one in string.gmatch(list or "", "[^,]+") do found[#found + 1] = one end
   return found
end

-- The count of GPUs in a request: "gres:gpu:8", "gres/gpu:h100:8,license:1".
local function gpus_in(request)
   local count = 0
   for _, one in ipairs(split(text(request))) do
      one = one:gsub("^gres[:/]", ""):gsub("=", ":")
      if one == "gpu" or one:find("^gpu:") then count = count + (tonumber(one:match(":(%d+)$")) or 1) end
   end
   return count
end

local function default_queue(part_list)
   for name, part in pairs(part_list or {}) do
      if part.flag_default ~= nil and part.flag_default ~= 0 then return name end
   end
   return nil
end

local groups_of_users = {}

-- The names of a user's groups. `id` is asked at most once a minute for each user.
local function groups_of(user)
   local known = groups_of_users[user]
   if known and os.time() - known.time < 60 then return known.groups end
   local groups = {}
   if user and user:find("^[%w_][%w_.-]*$") then
      local id = io.popen("id -Gn -- " .. user .. " 2>/dev/null")
      for name in (id:read("*a") or ""):gmatch("%S+") do groups[#groups + 1] = name end
      id:close()
   end
   groups_of_users[user or ""] = { time = os.time(), groups = groups }
   return groups
end

-- A job's values by the keys of a spec. Of a changed job, `job` has what it had before.
local function job_of(desc, part_list, job)
   local function field(name)
      local value = desc[name]
      if (value == nil or text(value) == nil or UNSET[value]) and job then value = job[name] end
      return value
   end
   local found = { values = {}, user = text(field("user_name")) or "" }
   for key, name in pairs(FIELDS) do found.values[key] = text(field(name)) end
   local queue = text(field("partition")) or default_queue(part_list)
   found.queues = split(queue)
   found.values["queue"] = queue
   found.account = text(field("account")) or text(desc.default_account)
   local least = number(field("min_nodes")) or 1
   found.nodes = math.max(least, number(field("max_nodes")) or least)
   found.gpus_per_node = gpus_in(field("tres_per_node"))
   local of_tasks = gpus_in(field("tres_per_task")) * (number(field("num_tasks")) or found.nodes)
   found.gpus = found.nodes * found.gpus_per_node + gpus_in(field("tres_per_job")) + of_tasks
   found.minutes = number(field("time_limit"))
   found.values["time_limit"] = found.minutes and tostring(found.minutes)
   return found
end

-- ------------------------------------------------------------------ rules

local function fits(patterns, value)
   for _, one in ipairs(patterns) do
      if value and value:find(one[2]) then return true end
   end
   return false
end

local function any_fits(patterns, values)
   for _, value in ipairs(values) do
      if fits(patterns, value) then return true end
   end
   return false
end

local function all_fit(patterns, values)
   for _, value in ipairs(values) do
      if not fits(patterns, value) then return false end
   end
   return true
end

-- Of several queues, one is enough for `when`, and all must fit for `unless`.
local function is_selected(selection, job, exempts)
   if selection.queues then
      local compare = exempts and all_fit or any_fits
      if not compare(selection.queues, job.queues) then return false end
   end
   if selection.users and not fits(selection.users, job.user) then return false end
   if selection.accounts and not fits(selection.accounts, job.account) then return false end
   if selection.groups and not any_fits(selection.groups, groups_of(job.user)) then return false end
   return true
end

local function list(patterns)
   local names = {}
   for _, one in ipairs(patterns) do names[#names + 1] = one[1] end
   return table.concat(names, ", ")
end

local function last(key) return key:match("[^.]+$") end

local function values_of(job, key)
   if key == "sbatch.account" then return { job.account } end
   if key == "queue" then return job.queues end
   return { job.values[key] }
end

-- What breaks the rule: lines as `clusterjobs plan` says them.
local function violations(rule, job)
   local found = {}
   local function add(key, what) found[#found + 1] = key .. ": " .. what end
   for _, key in ipairs(rule.require or {}) do
      if job.values[key] == nil then add(key, last(key) .. " is missing") end
   end
   for key, allowed in pairs(rule.allow or {}) do
      for _, value in ipairs(values_of(job, key)) do
         if not fits(allowed, value) then add(key, "'" .. value .. "' is not one of: " .. list(allowed)) end
      end
   end
   for key, forbidden in pairs(rule.forbid_values or {}) do
      for _, value in ipairs(values_of(job, key)) do
         if fits(forbidden, value) then add(key, "'" .. value .. "' is forbidden") end
      end
   end
   for _, key in ipairs(rule.forbid or {}) do
      if job.values[key] ~= nil then add(key, last(key) .. " is not allowed: remove it") end
   end
   local limits = rule.limits or {}
   for _, name in ipairs({ "nodes", "team_nodes" }) do
      if limits[name] and job.nodes > limits[name] then
         add("nodes", job.nodes .. " is more than " .. limits[name])
      end
   end
   for _, name in ipairs({ "gpus", "team_gpus" }) do
      if limits[name] and job.gpus > limits[name] then
         add("nodes", job.gpus .. " GPUs are more than " .. limits[name])
      end
   end
   if limits.gpus_per_node and job.gpus_per_node > limits.gpus_per_node then
      add("gpus_per_node", job.gpus_per_node .. " is more than " .. limits.gpus_per_node)
   end
   if limits.minutes then
      if not job.minutes then
         add("time_limit", "the job has no time limit: write " .. limits.time .. " at most")
      elseif job.minutes > limits.minutes then
         add("time_limit", job.minutes .. " minutes are longer than " .. limits.time)
      end
   end
   if limits.gpu_minutes and job.gpus > 0 then
      if not job.minutes then
         add("time_limit", "the job has no time limit")
      elseif job.gpus * job.minutes > limits.gpu_minutes then
         add("time_limit", job.gpus .. " GPUs x " .. job.minutes .. " minutes are more than "
            .. limits.gpu_minutes / 60 .. " GPU-hours")
      end
   end
   return found
end

-- All rules that the job breaks are said; only `refuse` refuses it.
local function check(job)
   local refused = false
   for _, rule in ipairs(RULES) do
      local applies = not rule.when or is_selected(rule.when, job, false)
      for _, one in ipairs(rule.unless or {}) do
         if is_selected(one, job, true) then applies = false end
      end
      if applies then
         for _, what in ipairs(violations(rule, job)) do
            slurm.log_user("%s", what .. " [rule " .. rule.name .. "]\n  " .. rule.message)
            if rule.action == "refuse" then refused = true end
         end
      end
   end
   return refused and slurm.ERROR or slurm.SUCCESS
end

function slurm_job_submit(desc, part_list, submit_uid)
   return check(job_of(desc, part_list, nil))
end

function slurm_job_modify(desc, job, part_list, modify_uid)
   if modify_uid == 0 then return slurm.SUCCESS end
   return check(job_of(desc, part_list, job))
end

return slurm.SUCCESS
