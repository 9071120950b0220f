CREATE TABLE IF NOT EXISTS orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dispatched boolean NOT NULL DEFAULT false
);

CREATE TABLE IF NOT EXISTS mails (
    order_id bigint NOT NULL,
    sent_by text
);

CREATE TABLE IF NOT EXISTS reports (
    due timestamptz NOT NULL,
    worker text NOT NULL,
    mails bigint NOT NULL
);
