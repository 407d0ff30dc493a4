-- What time it is, in milliseconds: the server's clock, or what a test puts in its place.

-- Times and scores as whole numbers, which the usual conversion would round from 14 digits on.
local function whole(number)
  return string.format('%.0f', number)
end

-- An empty text is the server's clock and a text of digits is the time itself. Three numbers slow the server's clock
-- down: what is added to it, since when it is slow, and how many times.
local function read_clock(text)
  if text:find('^%d+$') then
    return tonumber(text)
  end
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  local ahead, since, times = text:match('^([+-]%d+) (%d+) (%d+)$')
  if ahead then
    now = since + math.floor((now - since) / times) + ahead
  end
  return now
end
