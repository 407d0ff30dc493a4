-- Commands of the ledger. Each call of the script runs one of them.

-- Maximum number of sessions that one call declares lost.
local REAP_BATCH = 16

local commands = {}

-- Argument of a command, which follow the common ones.
local function argument(number)
  return ARGV[FIRST_ARGUMENT - 1 + number]
end

local function arguments()
  return #ARGV - FIRST_ARGUMENT + 1
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

-- Arguments: session, message, message, …
function commands.take()
  local session, answers = argument(1), {}
  local alive = is_alive(session)
  for number = 1, arguments() - 1 do
    local message = argument(number + 1)
    local letter = letter_of(message)
    local holder = redis.call('HGET', key('holders'), message)
    if not alive then
      answers[number] = { 'fenced' }
    elseif letter == 'closed' then
      answers[number] = { 'closed' }
    elseif letter then
      answers[number] = { 'dead', letter }
    else
      local busy = holder and holder ~= session and take_from(holder, message)
      if busy then
        answers[number] = { 'busy', whole(busy) }
      else
        redis.call('HSET', key('holders'), message, session)
        redis.call('HSET', key('hands', session), message, 0)
        answers[number] = { 'taken', unpack(history(message)) }
      end
    end
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

local settlements = {
  done = function(message)
    redis.call('DEL', key('message', message))
  end,
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
  for number = 1, (arguments() - 1) / 3 do
    local message, settlement, error = argument(3 * number - 1), argument(3 * number), argument(3 * number + 1)
    local holder = redis.call('HGET', key('holders'), message)
    if holder == session then
      release(session, message)
      settlements[settlement](message, error)
    end
    answers[number] = alive and (not holder or holder == session) and 1 or 0
  end
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
