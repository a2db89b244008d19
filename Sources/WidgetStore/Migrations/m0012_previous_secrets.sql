-- The signing secret that an app had before its present one, valid beside it until it expires, so that its provider can be
-- given the new one at leisure. Apart from `app`, whose rows reloads of everyone rewrite; and without a key to it, so that
-- no lock on `app` is waited for.
CREATE TABLE previous_secret (
    app_id int PRIMARY KEY,
    secret bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    replaced_at timestamptz NOT NULL DEFAULT now()
);
