-- The last applied message of each partition: its offset, and a hash of it. A log that has another message there is another
-- log, such as that of a topic that was deleted and made anew. NULL: not known.
ALTER TABLE consumer_position ADD COLUMN last_offset bigint, ADD COLUMN last_hash bigint;
