CREATE TABLE IF NOT EXISTS invoices (
    id bigint PRIMARY KEY,
    tenant text NOT NULL,
    cents bigint NOT NULL,
    paid boolean NOT NULL DEFAULT false
);

CREATE TABLE IF NOT EXISTS statements (
    tenant text NOT NULL,
    month text NOT NULL,
    cents bigint NOT NULL,
    PRIMARY KEY (tenant, month)
);
