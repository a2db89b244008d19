-- Run this after a restore, before workers start, as freshet_owner.
--
-- A timeline's revision is a token of the claim under which it was fetched, from one sequence; consumers of `freshet.timelines`
-- ignore lower revisions than they have seen. The restore has set the sequence back. This moves it past all revisions that were
-- assigned since the backup: 1,000,000,000 is more than a day at 10,000 claims a second.
SELECT setval('token', nextval('token') + 1000000000) AS next_revision_is_after;
