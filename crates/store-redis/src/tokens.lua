-- Adds an access token, unless another one has its id or its hash. KEYS: tokens by hash, hashes by id, revocations by hash.

local id, hash, record, revoked_at = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local known = redis.call('HGET', KEYS[2], id)
if known == hash then
  return 1
end
if known or redis.call('HEXISTS', KEYS[1], hash) == 1 then
  return 0
end
-- Tokens are never deleted, so that their number is the place of the next one.
redis.call('HSET', KEYS[1], hash, redis.call('HLEN', KEYS[1]) .. ' ' .. record)
redis.call('HSET', KEYS[2], id, hash)
if revoked_at ~= '' then
  redis.call('HSET', KEYS[3], hash, revoked_at)
end
return 1
