-- Devices of a topic of the push service: if the service knows few of their tokens, the topic or the environment is wrong
-- rather than the tokens.
CREATE INDEX registration_of_topic ON registration (app_id, topic, coalesce(found_environment, environment))
    WHERE channel = 1;
