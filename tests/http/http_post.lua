-- SPDX-License-Identifier: MIT
-- wrk posts mixed bodies.  usage: wrk ... -s http_post.lua URL -- LIST [check]
--
-- LIST has a line for each body: its file, and the right answer.  With "check" every answer is
-- looked up among the right ones, which costs wrk time; without it, wrk only counts bad codes.
-- Prints a line "figure NAME VALUE" for each figure at the end.
local threads = {}

function setup(thread)
	table.insert(threads, thread)
	thread:set("number", #threads)
end

function init(args)
	requests, right = {}, {}
	nr_wrong, nr_overloaded, nr_errors, next_one = 0, 0, 0, number * 7
	for line in io.lines(args[1]) do
		local name, answer = line:match("^(%S+) (.*)$")
		local file = assert(io.open(name, "rb"))
		table.insert(requests, wrk.format("POST", nil, nil, file:read("*a")))
		right[answer .. "\n"] = true
		file:close()
	end
	if args[2] ~= "check" then
		response = nil
	end
end

function request()
	next_one = next_one % #requests + 1
	return requests[next_one]
end

function response(status, headers, body)
	if status == 503 then
		nr_overloaded = nr_overloaded + 1
	elseif status ~= 200 then
		nr_errors = nr_errors + 1
	elseif not right[body] then
		nr_wrong = nr_wrong + 1
	end
end

local function figure(name, value)
	io.write(string.format("figure %s %.0f\n", name, value))
end

function done(summary, latency)
	local sums = { nr_wrong = 0, nr_overloaded = 0, nr_errors = 0 }
	for _, thread in ipairs(threads) do
		for name in pairs(sums) do
			sums[name] = sums[name] + thread:get(name)
		end
	end
	figure("requests", summary.requests)
	io.write(string.format("figure seconds %.3f\n", summary.duration / 1e6))
	figure("p50_us", latency:percentile(50))
	figure("p99_us", latency:percentile(99))
	figure("max_us", latency.max)
	figure("wrong", sums.nr_wrong)
	figure("overloaded", sums.nr_overloaded)
	figure("errors", sums.nr_errors)
	figure("bad_status", summary.errors.status)
	figure("connect", summary.errors.connect)
	figure("read", summary.errors.read)
	figure("write", summary.errors.write)
	figure("timeout", summary.errors.timeout)
end
