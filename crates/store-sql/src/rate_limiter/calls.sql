-- The calls of the rate limiter. Each locks the row of its group, changes it, and updates the shared row last.

-- Returns 'go', the permit's id and the end of its lease; or the reason for a wait and its end.
CREATE OR REPLACE FUNCTION {gate}_reserve(
  told bigint, p gate_policy, asked text, asking uuid, in_flight bigint, gap bigint, random bigint, part bigint,
  OUT word text, OUT a bigint, OUT b bigint
) LANGUAGE plpgsql AS $$
DECLARE
  life gate_life := {gate}_life({gate}_clock(told));
  come bigint := -{gate}_forget(life, {gate}_clock(told), 16, asked);
  got record;
  lane gate_lanes;
  now bigint;
  free bigint;
  slot bigint;
  head gate_line;
  width bigint;
BEGIN
  got := {gate}_lane(told, p, asked, true);
  lane := got.lane;
  now := got.now;
  come := come + got.come;
  IF lane.forget = 0 AND life.lanes + come > p.most_groups THEN
    come := come - {gate}_forget(life, now, 1000, asked);
    SELECT lanes INTO life.lanes FROM gate_life;
    IF life.lanes + come > p.most_groups THEN
      -- No room for the group: the answer is when room may become free.
      DELETE FROM gate_lanes WHERE name = asked;
      SELECT forget_mark + life.shift INTO free FROM gate_lanes WHERE forget_mark > now - life.shift
      ORDER BY forget_mark LIMIT 1;
      word := 'crowded';
      a := greatest(coalesce(free, now), now + 1000) + part * 1001 / 1000000000;
      PERFORM {gate}_end(life, now, come - 1);
      RETURN;
    END IF;
  END IF;
  lane.gap := greatest(lane.gap, gap);
  SELECT e.at, e.why INTO free, word FROM {gate}_earliest(p, life, lane, now, in_flight, gap) e;
  SELECT mark + lane.moved INTO slot FROM gate_line WHERE name = asked AND ticket = asking;
  SELECT * INTO head FROM gate_line WHERE name = asked ORDER BY mark, ticket LIMIT 1;
  IF slot IS NULL THEN
    -- Before the queue if there is room, else behind it.
    width := {gate}_pace(in_flight, gap, {gate}_likely(p, lane));
    a := free;
    IF head.ticket IS NOT NULL AND free + width > head.mark + lane.moved THEN
      SELECT greatest(free, mark + lane.moved + width) INTO a FROM gate_line WHERE name = asked
      ORDER BY mark DESC, ticket DESC LIMIT 1;
    END IF;
  ELSE
    a := CASE WHEN head.ticket = asking AND free <= now THEN now ELSE greatest(slot, free) END;
  END IF;
  IF a <= now THEN
    DELETE FROM gate_line WHERE name = asked AND ticket = asking;
    lane.numbered := (coalesce(lane.numbered, random) + 1) % 1000000;
    word := 'go';
    a := now * 1000000 + lane.numbered;
    b := now + p.lease;
    INSERT INTO gate_flight VALUES (asked, a, now, b);
    lane.started := greatest(lane.started, now);
    IF lane.openings > 0 THEN
      lane.probe := a;
    END IF;
  ELSIF slot <> a THEN
    -- Slots are further apart than the mean latency; that slack is used up first.
    width := {gate}_pace(in_flight, gap, least(coalesce(lane.mean, p.first_guess), p.lease));
    lane.moved := lane.moved + {gate}_put_off(lane, asking, slot, a, width);
  ELSIF slot IS NULL THEN
    IF (SELECT count(*) FROM gate_line WHERE name = asked) >= p.longest_line THEN
      -- Refused tickets come back, so they are spread over the length of the queue.
      a := a + floor(part::numeric * (a - now + 1) / 1000000000)::bigint;
      word := 'crowded';
    ELSE
      INSERT INTO gate_line VALUES (asked, asking, a - lane.moved);
    END IF;
  END IF;
  come := come + {gate}_keep(p, life, lane, now);
  PERFORM {gate}_end(life, now, come);
END
$$;
--- next
CREATE OR REPLACE FUNCTION {gate}_leave(told bigint, p gate_policy, asked text, asking uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  life gate_life := {gate}_life({gate}_clock(told));
  got record := {gate}_lane(told, p, asked, false);
  lane gate_lanes := got.lane;
  come bigint := got.come;
BEGIN
  IF lane.name IS NOT NULL THEN
    DELETE FROM gate_line WHERE name = asked AND ticket = asking;
    come := come + {gate}_keep(p, life, lane, got.now);
  END IF;
  PERFORM {gate}_end(life, got.now, come);
END
$$;
--- next
-- Whether an unknown permit may be from before the tables were emptied, with its request still running. The id contains the
-- start of the request.
CREATE OR REPLACE FUNCTION {gate}_is_of_an_earlier_life(p gate_policy, life gate_life, now bigint, permit bigint) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT permit / 1000000 < life.born AND permit / 1000000 <= now AND permit / 1000000 > now - p.lease
$$;
--- next
-- The outcome is success, failure or neutral; the jitter is in thousandths of a percent. Returns whether the permit was held.
CREATE OR REPLACE FUNCTION {gate}_finish(
  told bigint, p gate_policy, asked text, permit bigint, outcome text, retry_after bigint, jitter bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  life gate_life := {gate}_life({gate}_clock(told));
  got record := {gate}_lane(told, p, asked, false);
  lane gate_lanes := got.lane;
  now bigint := got.now;
  come bigint := got.come;
  start bigint;
  took bigint;
BEGIN
  DELETE FROM gate_flight WHERE name = asked AND id = permit RETURNING started INTO start;
  IF start IS NULL THEN
    IF NOT {gate}_is_of_an_earlier_life(p, life, now, permit) THEN
      IF lane.name IS NOT NULL THEN
        come := come + {gate}_keep(p, life, lane, now);
      END IF;
      PERFORM {gate}_end(life, now, come);
      RETURN false;
    END IF;
    start := permit / 1000000;
    IF lane.name IS NULL THEN
      got := {gate}_lane(told, p, asked, true);
      lane := got.lane;
      come := come + got.come;
    END IF;
  END IF;
  lane.started := greatest(lane.started, start);
  lane.ended := greatest(lane.ended, now);
  IF outcome = 'success' THEN
    took := least(now - start, 4294967295);
    IF lane.mean IS NULL THEN
      lane.mean := took;
      lane.off_by := took / 2;
    ELSE
      lane.off_by := {gate}_towards(lane.off_by, abs(lane.mean - took), 4);
      lane.mean := {gate}_towards(lane.mean, took, 8);
    END IF;
    IF lane.blocks = 0 OR start > lane.since THEN
      lane.blocks := NULL;
      lane.since := NULL;
      lane.left_until := NULL;
      lane.openings := NULL;
      lane.probe := NULL;
    END IF;
  ELSIF outcome = 'failure' THEN
    IF lane.blocks IS NULL THEN
      lane.blocks := 0;
      lane.since := now;
      lane.left_until := now;
      lane.openings := 0;
    END IF;
    lane.left_until := greatest(lane.left_until, now + retry_after);
    -- A failure of a request that started before the last failure counts as the same one.
    IF lane.blocks = 0 OR start > lane.since THEN
      lane.blocks := lane.blocks + 1;
      lane.since := now;
      lane.left_until := greatest(lane.left_until, now + least({gate}_doubled(p.first, lane.blocks, p.most) * jitter / 100000, p.most));
      IF p.failures > 0 AND lane.blocks >= p.failures THEN
        lane.openings := lane.openings + 1;
        lane.left_until := greatest(lane.left_until, now + {gate}_doubled(p.cool_down, lane.openings, p.longest_open));
      END IF;
    END IF;
    -- All future slots move behind the end of the back-off.
    lane.moved := lane.moved + coalesce((
      SELECT greatest(0, lane.left_until - (mark + lane.moved)) FROM gate_line
      WHERE name = asked AND mark >= now - lane.moved ORDER BY mark LIMIT 1
    ), 0);
  END IF;
  come := come + {gate}_keep(p, life, lane, now);
  PERFORM {gate}_end(life, now, come);
  RETURN true;
END
$$;
--- next
-- EWMA step, rounded away from the old value, so that it arrives.
CREATE OR REPLACE FUNCTION {gate}_towards(was bigint, goal bigint, part bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT was + sign(goal - was)::bigint * ((abs(goal - was) + part - 1) / part)
$$;
--- next
CREATE OR REPLACE FUNCTION {gate}_doubled(first bigint, times bigint, most bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT least(first * (1::bigint << least(times - 1, 31)::int), most)
$$;
--- next
-- Returns the end of the new lease, or null if the permit is not held.
CREATE OR REPLACE FUNCTION {gate}_extend(told bigint, p gate_policy, asked text, permit bigint) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  life gate_life := {gate}_life({gate}_clock(told));
  got record := {gate}_lane(told, p, asked, false);
  lane gate_lanes := got.lane;
  now bigint := got.now;
  come bigint := got.come;
  start bigint;
BEGIN
  -- One transaction extends many permits in the order of their groups, so the shared row should not be locked in between.
  life.seen := now;
  SELECT started INTO start FROM gate_flight WHERE name = asked AND id = permit;
  IF start IS NULL AND {gate}_is_of_an_earlier_life(p, life, now, permit) THEN
    start := permit / 1000000;
    IF lane.name IS NULL THEN
      got := {gate}_lane(told, p, asked, true);
      lane := got.lane;
      come := come + got.come;
    END IF;
  END IF;
  IF start IS NOT NULL THEN
    INSERT INTO gate_flight VALUES (asked, permit, start, now + p.lease)
    ON CONFLICT (name, id) DO UPDATE SET ends = excluded.ends;
    lane.started := greatest(lane.started, start);
  END IF;
  IF lane.name IS NOT NULL THEN
    come := come + {gate}_keep(p, life, lane, now);
  END IF;
  PERFORM {gate}_end(life, now, come);
  RETURN CASE WHEN start IS NOT NULL THEN now + p.lease END;
END
$$;
--- next
-- Number of groups, after idle ones are deleted.
CREATE OR REPLACE FUNCTION {gate}_tracked(told bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  now bigint := {gate}_clock(told);
  life gate_life := {gate}_life(now);
  gone bigint;
BEGIN
  LOOP
    gone := {gate}_forget(life, now, 1000, '');
    PERFORM {gate}_end(life, now, -gone);
    EXIT WHEN gone < 1000;
  END LOOP;
  RETURN (SELECT count(*) FROM gate_lanes WHERE forget_mark > now - life.shift);
END
$$;
