-- Fails the transaction when an audience has more widgets than are marked at once: it is applied again, with a sweep.
CREATE FUNCTION raise_too_many_widgets() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a user has more widgets than are marked at once' USING ERRCODE = 'FR004';
END $$;
