-- After a restore, before workers start; as freshet_owner.
--
-- A timeline's revision is the claim under which it was fetched, next of one sequence, and consumers of `freshet.timelines`
-- ignore lower revisions than they have seen. The sequence went back with the backup. This moves it past whatever was given
-- out since: 1,000,000,000 is more than a day at 10,000 claims a second.
SELECT setval('timeline_claim', nextval('timeline_claim') + 1000000000) AS next_revision_is_after;
