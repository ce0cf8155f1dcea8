-- routing.leave: a process that ends by itself leaves nothing behind, no claim either.
WITH c AS (
    DELETE FROM weir.route_claim WHERE owner = $1
)
DELETE FROM weir.replica WHERE replica = $1
