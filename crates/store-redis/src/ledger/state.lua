-- State of the ledger. A message is its queue, a space, and its key. Keys, after the prefix and `ledger:`:
--
--   clock          hash    seen: when the last process was here; grace_until: no session is lost before
--   sessions       zset    living sessions by the end of their leases
--   session:ID     hash    worker; solo: the message whose solo crash the loss of the session has counted; a TTL once it is lost
--   hands:ID       hash    messages in flight in a session: 1 if it runs solo, 0 otherwise
--   holders        hash    sessions by message in flight
--   message:M      hash    history of a message; has a TTL
--   letter-of:M    string  number of the message's dead letter, or `closed` and the time until which that is known, with a TTL
--   letter:N       hash    a dead letter; of a closed one only its epoch, with a TTL
--   dead:QUEUE     zset    dead letters of a queue by number
--   number         string  number of the last dead letter
--   pauses         set     paused queues
--   bindings       hash    bindings by queue

local base = KEYS[1]
local now = read_clock(ARGV[1])
local ttl_margin, session_lease, replay_lease, retention =
  tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local FIRST_ARGUMENT = 7
local HISTORY = { 'attempts', 'losses', 'solo_crashes', 'first_error', 'first_error_at', 'last_error', 'last_error_at' }

local function key(...)
  return base .. ':' .. table.concat({ ... }, ':')
end

local function expire(name)
  redis.call('PEXPIRE', name, whole(retention + ttl_margin))
end

-- Notes that a process is here, and returns the end of the grace period. A new one begins if no process was here for half a
-- lease, or if the clock was set back: then none could send a heartbeat.
local function touch()
  local stored = redis.call('HMGET', key('clock'), 'seen', 'grace_until')
  local seen, grace, latest = tonumber(stored[1]), tonumber(stored[2]), now + session_lease / 2
  if not seen or math.abs(now - seen) > session_lease / 2 or grace > latest then
    grace = latest
  end
  redis.call('HSET', key('clock'), 'seen', whole(now), 'grace_until', whole(grace))
  return grace
end

local function is_alive(session)
  return redis.call('ZSCORE', key('sessions'), session)
end

local function history(message)
  local stored = redis.call('HMGET', key('message', message), 'until', unpack(HISTORY))
  local fields = {}
  local known = tonumber(stored[1]) and tonumber(stored[1]) > now
  for number in ipairs(HISTORY) do
    fields[number] = known and stored[number + 1] or ''
  end
  return fields
end

-- Adds to the counts of a message.
local function count(message, field, by)
  local name = key('message', message)
  local known = tonumber(redis.call('HGET', name, 'until'))
  if known and known <= now then
    redis.call('DEL', name)
  end
  redis.call('HINCRBY', name, field, by)
  redis.call('HSET', name, 'until', whole(now + retention))
  expire(name)
end

-- Counts one more lost worker, and a solo crash if `solo` is 1.
local function count_loss(message, solo)
  count(message, 'losses', 1)
  if solo == '1' then
    count(message, 'solo_crashes', 1)
  end
end

-- Takes a message out of the hands of a session.
local function release(session, message)
  redis.call('HDEL', key('holders'), message)
  redis.call('HDEL', key('hands', session), message)
end

-- Declares a session lost: what it has in flight is suspect. Returns its id, its worker and the messages.
local function lose(session)
  local answer = { session, redis.call('HGET', key('session', session), 'worker') or '' }
  local hands = redis.call('HGETALL', key('hands', session))
  for number = 1, #hands, 2 do
    local message, solo = hands[number], hands[number + 1]
    count_loss(message, solo)
    redis.call('HDEL', key('holders'), message)
    if solo == '1' then
      redis.call('HSET', key('session', session), 'solo', message)
    end
    answer[#answer + 1] = message
  end
  redis.call('DEL', key('hands', session))
  redis.call('ZREM', key('sessions'), session)
  expire(key('session', session))
  return answer
end

-- Number of the dead letter of a message, `closed`, or nil.
local function letter_of(message)
  local value = redis.call('GET', key('letter-of', message))
  local closed_until = value and value:match('^closed (%d+)$')
  if not closed_until then
    return value or nil
  end
  return tonumber(closed_until) > now and 'closed' or nil
end

-- Message, epoch and end of the mark of a dead letter that is not closed; nil otherwise.
local function open_letter(number)
  local stored = redis.call('HMGET', key('letter', number), 'message', 'epoch', 'marked_until')
  if not stored[1] then
    return nil
  end
  return { message = stored[1], epoch = tonumber(stored[2]), marked_until = tonumber(stored[3]) }
end

local function close_letter(number, letter)
  local queue = letter.message:sub(1, letter.message:find(' ', 1, true) - 1)
  redis.call('ZREM', key('dead', queue), number)
  redis.call('DEL', key('letter', number))
  redis.call('HSET', key('letter', number), 'epoch', whole(letter.epoch))
  expire(key('letter', number))
  local trace = 'closed ' .. whole(now + retention)
  redis.call('SET', key('letter-of', letter.message), trace, 'PX', whole(retention + ttl_margin))
end
