-- A kind whose sharing or variesBy was changed: its widgets show timelines of the old identity until they are moved, in
-- paced chunks. A pass walks the kind's timelines in id order; passes follow one another until one that began when no
-- process could know the old definition any more has moved nothing.
CREATE TABLE kind_move (
    kind_id int PRIMARY KEY REFERENCES kind,
    started_at timestamptz NOT NULL DEFAULT now(),
    pass int NOT NULL DEFAULT 1,
    pass_begins_at timestamptz NOT NULL DEFAULT now(),
    cursor_timeline uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    moved bigint NOT NULL DEFAULT 0,
    moved_in_all bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

COMMENT ON TABLE kind_move IS 'its row lock is held by the one process that moves a chunk';
COMMENT ON COLUMN kind_move.pass_begins_at IS 'the pass waits until then';
COMMENT ON COLUMN kind_move.moved IS 'widgets moved in this pass';
