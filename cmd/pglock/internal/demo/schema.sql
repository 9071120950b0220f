CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL);
CREATE TABLE transfer (payer int NOT NULL, payee int NOT NULL, amount bigint NOT NULL);
CREATE TABLE tally (transfers bigint NOT NULL);
CREATE TABLE deployment (number int NOT NULL);

INSERT INTO tally VALUES (0);
INSERT INTO deployment VALUES (0);
