-- What the reload rules need (design, section 6): how far free requests may go ahead of the spacing, what is spent of the
-- budget, and what explain tells of the last decision. New columns have constant defaults, so no row is rewritten.
ALTER TABLE app
    ADD COLUMN operator_generation bigint NOT NULL DEFAULT 0,
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN cause_topic smallint,
    ADD COLUMN cause_partition int,
    ADD COLUMN cause_offset bigint,
    ADD COLUMN cause_reason smallint,
    ADD COLUMN bumped_at timestamptz;

COMMENT ON COLUMN app.operator_generation IS 'value of generation at the latest reload that an operator asked for';
COMMENT ON COLUMN app.paused_at IS 'its timelines are not claimed: reloads wait';

ALTER TABLE kind
    ADD COLUMN operator_generation bigint NOT NULL DEFAULT 0,
    ADD COLUMN cancelled_generation bigint NOT NULL DEFAULT 0,
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN cause_topic smallint,
    ADD COLUMN cause_partition int,
    ADD COLUMN cause_offset bigint,
    ADD COLUMN cause_reason smallint,
    ADD COLUMN bumped_at timestamptz;

COMMENT ON COLUMN kind.cancelled_generation IS
    'kind.generation + app.generation up to which an operator has cancelled the sweep';

ALTER TABLE timeline_state
    ADD COLUMN free_at timestamptz NOT NULL DEFAULT '-infinity',
    ADD COLUMN policy_at timestamptz NOT NULL DEFAULT 'infinity',
    ADD COLUMN requested_at timestamptz,
    ADD COLUMN decided_at timestamptz,
    ADD COLUMN decision_offset bigint,
    ADD COLUMN decision_partition int,
    ADD COLUMN fetch_milliseconds int,
    ADD COLUMN decision_topic smallint,
    ADD COLUMN decision_reason smallint,
    ADD COLUMN decision_rule smallint NOT NULL DEFAULT 0,
    ADD COLUMN cause_reason smallint,
    ADD COLUMN budget bytea;

COMMENT ON COLUMN timeline_state.free_at IS
    'when a free request may reload it: a shared timeline keeps its spacing, others have -infinity. A claim sets it to '
    'now() and a request by an operator to -infinity, so a completion sees whether one came during the fetch';
COMMENT ON COLUMN timeline_state.policy_at IS 'the next time by its policy, jitter included; infinity: only on request';
COMMENT ON COLUMN timeline_state.requested_at IS 'time of the latest request to a person, a device or a widget';
COMMENT ON COLUMN timeline_state.budget IS 'what is spent of the daily budget, as BudgetLedger stores it; NULL: nothing';

ALTER TABLE sweep
    ADD COLUMN forced boolean NOT NULL DEFAULT false,
    ADD COLUMN cause_reason smallint;

COMMENT ON COLUMN widget.views IS 'hours in which it was viewed: views at least an hour after the last counted one';
COMMENT ON COLUMN widget.view_rate IS
    'hours a day in which it was viewed, an average that decays with a time constant of three days';

-- Which of a widget's views count, in the order in which they came: those at least an hour after the last counted one.
CREATE FUNCTION count_views(INOUT view_rate real, INOUT last_viewed_at timestamptz, times timestamptz[], OUT views int)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    at timestamptz;
BEGIN
    views := 0;
    FOREACH at IN ARRAY times LOOP
        CONTINUE WHEN at < last_viewed_at + interval '1 hour';
        view_rate := 1 / 3.0 + view_rate
            * exp(-least(coalesce(extract(epoch FROM at - last_viewed_at), 0)::float8 / (3 * 86400), 100));
        last_viewed_at := at;
        views := views + 1;
    END LOOP;
END $$;

COMMENT ON COLUMN sweep.forced IS 'an operator asked for it: not even shared timelines keep their spacing';
