-- One group, as it is stored, with the rules of the embedded rate limiter.

-- Time in milliseconds: the server's clock, or a manual one in tests.
CREATE OR REPLACE FUNCTION {gate}_clock(told bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
  SELECT coalesce(told, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
$$;
--- next
-- The state that all groups share; created if the tables are empty. Locked only if the clock was set back.
CREATE OR REPLACE FUNCTION {gate}_life(now bigint) RETURNS gate_life LANGUAGE plpgsql AS $$
DECLARE
  life gate_life;
BEGIN
  SELECT * INTO life FROM gate_life;
  IF NOT FOUND THEN
    INSERT INTO gate_life VALUES (true, now, now, 0, 0) ON CONFLICT DO NOTHING;
    SELECT * INTO life FROM gate_life;
  END IF;
  -- A step back of no more than a second counts as standing still.
  IF life.seen - now > 1000 THEN
    SELECT * INTO life FROM gate_life FOR UPDATE;
    IF life.seen - now > 1000 THEN
      UPDATE gate_life SET born = born - (seen - now), shift = shift - (seen - now), seen = now RETURNING * INTO life;
    END IF;
  END IF;
  RETURN life;
END
$$;
--- next
-- Updates the time once a second, and the number of groups. The last step of a call, since all calls share this row.
CREATE OR REPLACE FUNCTION {gate}_end(life gate_life, now bigint, come bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF come <> 0 OR now - life.seen >= 1000 THEN
    UPDATE gate_life SET lanes = lanes + come, seen = greatest(seen, now);
  END IF;
END
$$;
--- next
-- Deletes idle groups, except this one and locked ones; returns how many.
CREATE OR REPLACE FUNCTION {gate}_forget(life gate_life, now bigint, at_most bigint, spared text) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  names text[];
BEGIN
  SELECT array_agg(over.name) INTO names FROM (
    SELECT name FROM gate_lanes WHERE forget_mark <= now - life.shift AND name <> spared
    ORDER BY forget_mark LIMIT at_most FOR UPDATE SKIP LOCKED
  ) over;
  IF names IS NULL THEN
    RETURN 0;
  END IF;
  DELETE FROM gate_flight WHERE name = ANY (names);
  DELETE FROM gate_line WHERE name = ANY (names);
  DELETE FROM gate_lanes WHERE name = ANY (names);
  RETURN cardinality(names);
END
$$;
--- next
-- Locks the row of a group and brings it up to date: expired leases and lapsed slots go. An idle group counts as missing. A
-- missing one is created on demand, with `forget` = 0. `come` is the change of the number of groups.
CREATE OR REPLACE FUNCTION {gate}_lane(
  told bigint, p gate_policy, asked text, make boolean, OUT lane gate_lanes, OUT now bigint, OUT come bigint
) LANGUAGE plpgsql AS $$
DECLARE
  back bigint;
  lost bigint;
BEGIN
  come := 0;
  LOOP
    SELECT * INTO lane FROM gate_lanes WHERE name = asked FOR UPDATE;
    EXIT WHEN FOUND OR NOT make;
    INSERT INTO gate_lanes (name, seen, gap, moved, forget, forget_mark) VALUES (asked, 0, 0, 0, 0, 0)
    ON CONFLICT DO NOTHING RETURNING * INTO lane;
    IF FOUND THEN
      come := 1;
      EXIT;
    END IF;
  END LOOP;
  -- Only now, since waiting for the lock may have taken time.
  now := {gate}_clock(told);
  IF lane.name IS NULL THEN
    RETURN;
  END IF;
  back := lane.seen - now;
  IF come = 1 OR lane.forget - (CASE WHEN back > 1000 THEN back ELSE 0 END) <= now THEN
    IF come = 0 THEN
      DELETE FROM gate_flight WHERE name = asked;
      DELETE FROM gate_line WHERE name = asked;
      IF NOT make THEN
        DELETE FROM gate_lanes WHERE name = asked;
        lane := NULL;
        come := -1;
        RETURN;
      END IF;
    END IF;
    lane := ROW(asked, now, NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0)::gate_lanes;
    RETURN;
  END IF;
  IF back > 1000 THEN
    -- After a step back all times of the group are shifted, so that waits keep their length.
    lane.started := lane.started - back;
    lane.ended := lane.ended - back;
    lane.since := lane.since - back;
    lane.left_until := lane.left_until - back;
    lane.moved := lane.moved - back;
    UPDATE gate_flight SET started = started - back, ends = ends - back WHERE name = asked;
  ELSIF back > 0 THEN
    -- The group has seen a later time, so no time passes for it.
    now := lane.seen;
    RETURN;
  END IF;
  lane.seen := now;
  WITH gone AS (DELETE FROM gate_flight WHERE name = asked AND ends <= now RETURNING ends)
  SELECT max(ends) INTO lost FROM gone;
  lane.ended := greatest(lane.ended, lost);
  DELETE FROM gate_line WHERE name = asked AND mark < now - p.grace - lane.moved;
END
$$;
--- next
-- Writes the row of a group, or deletes it if idle; returns the change of the number of groups.
CREATE OR REPLACE FUNCTION {gate}_keep(p gate_policy, life gate_life, lane gate_lanes, now bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  until bigint;
  slot bigint;
BEGIN
  SELECT max(ends) INTO until FROM gate_flight WHERE name = lane.name;
  until := coalesce(greatest(lane.started, lane.ended, until), now) + greatest(lane.gap, p.idle);
  IF lane.blocks IS NOT NULL THEN
    until := greatest(until, lane.left_until + p.grudge);
  END IF;
  SELECT mark + lane.moved INTO slot FROM gate_line WHERE name = lane.name ORDER BY name DESC, mark DESC LIMIT 1;
  until := greatest(until, slot + p.grace + 1);
  IF until <= now THEN
    DELETE FROM gate_flight WHERE name = lane.name;
    DELETE FROM gate_line WHERE name = lane.name;
    DELETE FROM gate_lanes WHERE name = lane.name;
    RETURN -1;
  END IF;
  UPDATE gate_lanes SET
    seen = lane.seen, started = lane.started, ended = lane.ended, gap = lane.gap, mean = lane.mean, off_by = lane.off_by,
    moved = lane.moved, blocks = lane.blocks, since = lane.since, left_until = lane.left_until, openings = lane.openings,
    probe = lane.probe, numbered = lane.numbered, forget = until, forget_mark = until - life.shift
  WHERE name = lane.name;
  RETURN 0;
END
$$;
--- next
-- Upper estimate of the next request's latency: mean plus twice the mean deviation.
CREATE OR REPLACE FUNCTION {gate}_likely(p gate_policy, lane gate_lanes) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT least(coalesce(lane.mean + 2 * lane.off_by, p.first_guess), p.lease)
$$;
--- next
-- Distance of slots for requests of this latency.
CREATE OR REPLACE FUNCTION {gate}_pace(in_flight bigint, gap bigint, takes bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN in_flight = 1 THEN gap + takes ELSE greatest(gap, (takes + in_flight - 1) / in_flight) END
$$;
--- next
-- Earliest time for one more request without a queue, and the reason for the wait.
CREATE OR REPLACE FUNCTION {gate}_earliest(
  p gate_policy, life gate_life, lane gate_lanes, now bigint, in_flight bigint, gap bigint, OUT at bigint, OUT why text
) LANGUAGE plpgsql AS $$
DECLARE
  alone boolean := in_flight = 1;
  held gate_flight;
  flying bigint;
  ends bigint;
BEGIN
  at := greatest(now, greatest(CASE WHEN alone THEN lane.ended ELSE lane.started END, life.born) + gap);
  why := 'pace';
  -- The request that has to end before one more can start.
  IF lane.probe IS NOT NULL THEN
    SELECT * INTO held FROM gate_flight f WHERE f.name = lane.name AND f.id = lane.probe;
  END IF;
  IF held.id IS NULL THEN
    SELECT count(*) INTO flying FROM gate_flight f WHERE f.name = lane.name;
    IF flying >= in_flight THEN
      SELECT * INTO held FROM gate_flight f WHERE f.name = lane.name
      ORDER BY f.started, f.id OFFSET flying - in_flight LIMIT 1;
    END IF;
  END IF;
  IF held.id IS NOT NULL THEN
    ends := held.started + {gate}_likely(p, lane);
    IF ends <= now THEN
      -- A request that takes longer than estimated is expected to take half as long again, so that waiters ask only a few
      -- times.
      ends := now + greatest((now - held.started + 1) / 2, 50);
    END IF;
    ends := least(ends, held.ends);
    at := greatest(at, CASE WHEN alone THEN ends + gap ELSE ends END);
    why := 'busy';
  END IF;
  IF lane.blocks IS NOT NULL THEN
    at := greatest(at, lane.left_until);
    IF lane.openings > 0 THEN
      why := 'open';
    ELSIF lane.left_until > now THEN
      why := 'back_off';
    END IF;
  END IF;
END
$$;
--- next
-- Moves a ticket to a later slot and keeps its place in the queue. Only the followers that would be too close move, since each
-- of them comes back in vain. If that concerns more than 64, the whole queue moves; returns by how much.
CREATE OR REPLACE FUNCTION {gate}_put_off(lane gate_lanes, asking uuid, own bigint, at bigint, room bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  follower record;
  behind bigint := at + room;
  first bigint;
  tickets uuid[] := '{}';
  marks bigint[] := '{}';
  further bigint := 0;
BEGIN
  FOR follower IN
    SELECT ticket, mark + lane.moved AS slot FROM gate_line
    WHERE name = lane.name AND (mark, ticket) > (own - lane.moved, asking) ORDER BY mark, ticket LIMIT 65
  LOOP
    first := coalesce(first, follower.slot);
    EXIT WHEN follower.slot >= behind;
    tickets := tickets || follower.ticket;
    marks := marks || behind - lane.moved;
    behind := behind + room;
  END LOOP;
  IF cardinality(tickets) <= 64 THEN
    UPDATE gate_line l SET mark = m.mark FROM unnest(tickets, marks) m (ticket, mark)
    WHERE l.name = lane.name AND l.ticket = m.ticket;
  ELSE
    further := greatest(0, at + room - first);
  END IF;
  UPDATE gate_line SET mark = at - lane.moved - further WHERE name = lane.name AND ticket = asking;
  RETURN further;
END
$$;
