-- Answers of the push service about tokens, for all processes: if most tokens of a topic are unknown to the service, the
-- topic or the environment is wrong rather than the tokens.
CREATE TABLE push_topic (
    app_id int NOT NULL,
    environment smallint NOT NULL,
    topic text COLLATE "C" NOT NULL,
    accepted int NOT NULL,
    unknown int NOT NULL,
    PRIMARY KEY (app_id, environment, topic)
) WITH (fillfactor = 50);

COMMENT ON COLUMN push_topic.accepted IS 'accepted pushes; scaled down with the other number, so that the latest decide';
COMMENT ON COLUMN push_topic.unknown IS 'tokens, when they were unknown for the first time';
