ALTER TABLE registration ADD found_environment smallint, ADD apns_id text;

COMMENT ON COLUMN registration.found_environment IS
    'environment in which the push service has taken the token, if it is not the registered one';
COMMENT ON COLUMN registration.apns_id IS 'apns-id of the last attempt';
