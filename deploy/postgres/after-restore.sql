-- After a restore, before workers start; as freshet_owner.
--
-- A timeline's revision is a token of the claim under which it was fetched, from one sequence; consumers of `freshet.timelines`
-- ignore lower revisions than they have seen. The sequence went back with the backup. This moves it past whatever was given
-- out since: 1,000,000,000 is more than a day at 10,000 claims a second.
SELECT setval('token', nextval('token') + 1000000000) AS next_revision_is_after;
