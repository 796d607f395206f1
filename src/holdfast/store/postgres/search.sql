-- The numbers of a JSON array.
-- fragment: listed
SELECT value::bigint FROM json_array_elements_text($1::json)

-- Of many messages at once: a JSON array of keys and words.
-- name: insert_words
INSERT INTO message_words (message_pk, words)
SELECT (each ->> 0)::bigint, array_to_tsvector(string_to_array(each ->> 1, ' ')) FROM json_array_elements($1::json) AS each
ON CONFLICT (message_pk) DO UPDATE SET words = excluded.words

-- The newest first, as many as are wanted. A rare word is found by the index at once (`few`). Of a frequent one the
-- index cannot but list every message that has it, so the newest messages are looked at themselves, and only when the
-- word is not there often enough, the index has to. What is not needed is not run, since its condition is checked once.
-- Words are quoted; $2 is * or nothing, for the last of them. `message_pk + 0` keeps the order from choosing an index.
-- name: messages_with_words
WITH quoted AS (
    SELECT string_agg('''' || word || '''', ' & ' ORDER BY place) AS words
    FROM json_array_elements_text($1::json) WITH ORDINALITY AS each (word, place)
), sought AS MATERIALIZED (
    SELECT (words || replace($2, '*', ':*'))::tsquery AS query FROM quoted
), few AS MATERIALIZED (
    SELECT message_pk FROM message_words WHERE words @@ (SELECT query FROM sought) LIMIT $3
), many AS MATERIALIZED (
    SELECT count(*) = $3 AS are, (SELECT max(message_pk) FROM message_words) - 20000 AS border FROM few
), newest AS MATERIALIZED (
    SELECT message_pk FROM message_words
    WHERE (SELECT are FROM many) AND message_pk > (SELECT border FROM many) AND words @@ (SELECT query FROM sought)
    ORDER BY message_pk DESC LIMIT $3
)
SELECT message_pk FROM few WHERE NOT (SELECT are FROM many)
UNION ALL SELECT message_pk FROM newest
UNION ALL SELECT message_pk FROM (
    SELECT message_pk FROM message_words
    WHERE (SELECT are FROM many) AND (SELECT count(*) FROM newest) < $3
        AND message_pk + 0 <= (SELECT border FROM many) AND words @@ (SELECT query FROM sought)
    ORDER BY message_pk + 0 DESC LIMIT $3
) AS older LIMIT $3
