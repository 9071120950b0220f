CREATE TABLE invoices (
    id bigint PRIMARY KEY,
    tenant text NOT NULL,
    paid boolean NOT NULL DEFAULT false,
    note text
);

CREATE TABLE documents (
    id uuid PRIMARY KEY,
    version integer NOT NULL,
    seen timestamptz NOT NULL
);
CREATE TYPE mood AS ENUM ('good', 'bad');
