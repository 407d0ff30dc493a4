-- Commands of the ledger. Each call of the script runs one of them.

-- Maximum number of sessions that one call declares lost.
local REAP_BATCH = 16
-- Maximum number of values in one command; even, for fields with their values.
local CHUNK = 500
-- Answer for a message that has no history.
local NEW = { 'taken', '', '', '', '', '', '', '' }

local commands = {}

-- Argument of a command, which follow the common ones.
local function argument(number)
  return ARGV[FIRST_ARGUMENT - 1 + number]
end

local function arguments()
  return #ARGV - FIRST_ARGUMENT + 1
end

local function range(first, last)
  local values = {}
  for number = first, last do
    values[#values + 1] = argument(number)
  end
  return values
end

local function append(list, ...)
  for _, value in ipairs({ ... }) do
    list[#list + 1] = value
  end
end

-- Runs a command on the values, or on their keys of a kind, a chunk at a time, since a call has a limited number of arguments. Returns
-- all answers as one list.
local function in_chunks(values, kind, run)
  local answers = {}
  for first = 1, #values, CHUNK do
    local chunk = {}
    for number = first, math.min(first + CHUNK - 1, #values) do
      chunk[#chunk + 1] = kind and key(kind, values[number]) or values[number]
    end
    for number, answer in ipairs(run(chunk)) do
      answers[first + number - 1] = answer
    end
  end
  return answers
end

-- Arguments: session, worker
function commands.open()
  local session = argument(1)
  touch()
  if redis.call('HSETNX', key('session', session), 'worker', argument(2)) == 1 then
    redis.call('ZADD', key('sessions'), whole(now + session_lease), session)
  end
  return 1
end

-- Arguments: session
function commands.heartbeat()
  local session = argument(1)
  touch()
  if is_alive(session) then
    redis.call('ZADD', key('sessions'), whole(now + session_lease), session)
    return 1
  end
  local solo = redis.call('HGET', key('session', session), 'solo')
  if solo then
    redis.call('HDEL', key('session', session), 'solo')
    if (tonumber(history(solo)[3]) or 0) > 0 then
      count(solo, 'solo_crashes', -1)
    end
  end
  return 0
end

-- Arguments: session
function commands.close()
  local session = argument(1)
  if redis.call('ZREM', key('sessions'), session) == 1 then
    for _, message in ipairs(redis.call('HKEYS', key('hands', session))) do
      redis.call('HDEL', key('holders'), message)
    end
    redis.call('DEL', key('hands', session), key('session', session))
  end
  return 1
end

function commands.reap()
  local lost = {}
  if touch() > now then
    return lost
  end
  local expired = redis.call('ZRANGEBYSCORE', key('sessions'), '-inf', whole(now), 'LIMIT', 0, REAP_BATCH)
  for number, session in ipairs(expired) do
    lost[number] = lose(session)
  end
  return lost
end

-- End of the lease of the session that runs a message solo; otherwise the message is not in flight.
local function take_from(holder, message)
  local lease = tonumber(is_alive(holder))
  if lease and math.max(lease, touch()) <= now then
    lose(holder)
    return nil
  end
  local solo = redis.call('HGET', key('hands', holder), message)
  if lease and solo == '1' then
    return math.max(lease, touch())
  end
  release(holder, message)
  count_loss(message, '0')
  return nil
end

-- Takes a message of which something is known, and returns the answer.
local function take_one(session, message)
  local letter = letter_of(message)
  if letter then
    return letter == 'closed' and { 'closed' } or { 'dead', letter }
  end
  local holder = redis.call('HGET', key('holders'), message)
  local busy = holder and holder ~= session and take_from(holder, message)
  if busy then
    return { 'busy', whole(busy) }
  end
  redis.call('HSET', key('holders'), message, session)
  redis.call('HSET', key('hands', session), message, 0)
  return { 'taken', unpack(history(message)) }
end

-- Arguments: session, message, message, …
function commands.take()
  local session, answers = argument(1), {}
  local messages = range(2, arguments())
  if not is_alive(session) then
    for number in ipairs(messages) do
      answers[number] = { 'fenced' }
    end
    return answers
  end
  -- Most messages are new: what is known about all of them costs few commands.
  local letters = in_chunks(messages, 'letter-of', function(keys) return redis.call('MGET', unpack(keys)) end)
  local holders = in_chunks(messages, nil, function(chunk) return redis.call('HMGET', key('holders'), unpack(chunk)) end)
  local known = in_chunks(messages, 'message', function(keys) return { redis.call('EXISTS', unpack(keys)) } end)
  local has_history = false
  for _, count in pairs(known) do
    has_history = has_history or count > 0
  end
  local taken, owners, hands = {}, {}, {}
  for number, message in ipairs(messages) do
    if letters[number] or holders[number] and holders[number] ~= session then
      answers[number] = take_one(session, message)
    else
      taken[#taken + 1] = number
      append(owners, message, session)
      append(hands, message, 0)
    end
  end
  in_chunks(owners, nil, function(chunk) return { redis.call('HSET', key('holders'), unpack(chunk)) } end)
  in_chunks(hands, nil, function(chunk) return { redis.call('HSET', key('hands', session), unpack(chunk)) } end)
  for _, number in ipairs(taken) do
    answers[number] = has_history and { 'taken', unpack(history(messages[number])) } or NEW
  end
  return answers
end

-- Arguments: session, message
function commands.solo()
  local session, message = argument(1), argument(2)
  if redis.call('HGET', key('holders'), message) ~= session then
    return 0
  end
  local hands = redis.call('HGETALL', key('hands', session))
  for number = 1, #hands, 2 do
    if hands[number + 1] == '1' then
      redis.call('HSET', key('hands', session), hands[number], 0)
    end
  end
  redis.call('HSET', key('hands', session), message, 1)
  return 1
end

-- What else a settlement changes; `done` deletes the history.
local settlements = {
  returned = function() end,
  failed = function(message, error)
    count(message, 'attempts', 1)
    local name = key('message', message)
    if redis.call('HSETNX', name, 'first_error', error) == 1 then
      redis.call('HSET', name, 'first_error_at', whole(now))
    end
    redis.call('HSET', name, 'last_error', error, 'last_error_at', whole(now))
  end,
  lease_expired = function(message)
    count_loss(message, '0')
  end,
}

-- Arguments: session, message, settlement, error, message, …
function commands.settle()
  local session, answers = argument(1), {}
  local alive = is_alive(session)
  local messages, released, done = {}, {}, {}
  for number = 1, (arguments() - 1) / 3 do
    messages[number] = argument(3 * number - 1)
  end
  local holders = in_chunks(messages, nil, function(chunk) return redis.call('HMGET', key('holders'), unpack(chunk)) end)
  local is_released = {}
  for number, message in ipairs(messages) do
    local holder = not is_released[message] and holders[number]
    if holder == session then
      is_released[message] = true
      append(released, message)
      local settlement, error = argument(3 * number), argument(3 * number + 1)
      if settlement == 'done' then
        append(done, message)
      else
        settlements[settlement](message, error)
      end
    end
    answers[number] = alive and (not holder or holder == session) and 1 or 0
  end
  in_chunks(released, nil, function(chunk) return { redis.call('HDEL', key('holders'), unpack(chunk)) } end)
  in_chunks(released, nil, function(chunk) return { redis.call('HDEL', key('hands', session), unpack(chunk)) } end)
  in_chunks(done, 'message', function(keys) return { redis.call('DEL', unpack(keys)) } end)
  return answers
end

-- Arguments: session, message, queue, detail, body
function commands.add_dead_letters()
  local session, message = argument(1), argument(2)
  local holder = redis.call('HGET', key('holders'), message)
  if not is_alive(session) or holder and holder ~= session then
    return { 'fenced' }
  end
  release(session, message)
  local letter = letter_of(message)
  if letter == 'closed' then
    return { 'closed' }
  elseif not letter then
    letter = whole(redis.call('INCR', key('number')))
    redis.call('HSET', key('letter', letter), 'message', message, 'detail', argument(4), 'body', argument(5),
      'dead_at', whole(now), 'epoch', 0, 'marked_until', 0)
    redis.call('SET', key('letter-of', message), letter)
    redis.call('ZADD', key('dead', argument(3)), letter, letter)
    redis.call('DEL', key('message', message))
  end
  return { 'dead', letter }
end

-- A letter as texts; nil if it is closed or of another queue.
local function listed(number, queue)
  local stored = redis.call('HMGET', key('letter', number), 'message', 'detail', 'dead_at', 'epoch')
  if not stored[1] or stored[1]:sub(1, #queue + 1) ~= queue .. ' ' then
    return nil
  end
  return { number, stored[1], stored[2], stored[3], stored[4], whole(redis.call('HSTRLEN', key('letter', number), 'body')) }
end

-- Arguments: queue, number of the letter before the first one, maximum number of letters
function commands.scan()
  local queue, letters = argument(1), {}
  local numbers = redis.call('ZRANGEBYSCORE', key('dead', queue), '(' .. argument(2), '+inf', 'LIMIT', 0, argument(3))
  for _, number in ipairs(numbers) do
    letters[#letters + 1] = listed(number, queue)
  end
  return letters
end

-- Arguments: queue, number, number, …
function commands.pick()
  local queue, letters = argument(1), {}
  for number = 2, arguments() do
    letters[#letters + 1] = listed(argument(number), queue)
  end
  return letters
end

-- Arguments: queue
function commands.count()
  return redis.call('ZCARD', key('dead', argument(1)))
end

-- Arguments: number, number, …
function commands.bodies()
  local bodies = {}
  for number = 1, arguments() do
    bodies[number] = redis.call('HGET', key('letter', argument(number)), 'body')
  end
  return bodies
end

-- Arguments: number, number, …
function commands.begin_replay()
  local answers = {}
  for number = 1, arguments() do
    local letter = open_letter(argument(number))
    if not letter then
      answers[number] = { 'closed' }
    elseif letter.marked_until > now then
      answers[number] = { 'busy', whole(letter.marked_until) }
    else
      local epoch = whole(letter.epoch + 1)
      redis.call('HSET', key('letter', argument(number)), 'epoch', epoch, 'marked_until', whole(now + replay_lease))
      answers[number] = { 'begun', epoch }
    end
  end
  return answers
end

-- Arguments: number, epoch, number, …
function commands.end_replay()
  local answers = {}
  for number = 1, arguments() / 2 do
    local id, epoch = argument(2 * number - 1), argument(2 * number)
    -- A closed letter keeps the epoch that closed it, so that a repetition is recognised.
    local current = redis.call('HGET', key('letter', id), 'epoch')
    local letter = open_letter(id)
    if letter and current == epoch then
      close_letter(id, letter)
    end
    answers[number] = (not current or current == epoch) and 1 or 0
  end
  return answers
end

-- Arguments: number, number, …
function commands.drop()
  local answers = {}
  for number = 1, arguments() do
    local letter = open_letter(argument(number))
    local free = letter and letter.marked_until <= now
    if free then
      close_letter(argument(number), letter)
    end
    answers[number] = free and 1 or 0
  end
  return answers
end

-- Arguments: queue
function commands.pause()
  return redis.call('SADD', key('pauses'), argument(1))
end

-- Arguments: queue
function commands.resume()
  return redis.call('SREM', key('pauses'), argument(1))
end

function commands.paused()
  return redis.call('SMEMBERS', key('pauses'))
end

-- Arguments: queue, its bindings or an empty text
function commands.bind()
  if argument(2) == '' then
    return redis.call('HDEL', key('bindings'), argument(1))
  end
  return redis.call('HSET', key('bindings'), argument(1), argument(2))
end

function commands.bindings()
  return redis.call('HGETALL', key('bindings'))
end

return commands[ARGV[2]]()
