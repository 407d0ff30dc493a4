-- Step 14: URLs whose workers were lost, and those that took them with them. Until now a lost worker was an attempt, and what was counted
-- so stays counted.

ALTER TABLE entries ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;         -- workers that were lost with it
ALTER TABLE entries ADD COLUMN solo_crashes INTEGER NOT NULL DEFAULT 0;   -- those of them that ran nothing else
ALTER TABLE entries ADD COLUMN alone SMALLINT NOT NULL DEFAULT 0;         -- 1 while its worker runs nothing else, and if it died of that
