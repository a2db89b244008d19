package import PostgresClient
package import WidgetModel

/// A stored token with the device that it belongs to.
package typealias StoredToken = (id: Int64, owner: DeviceTokenKeys.Owner, sealed: DeviceTokenKeys.Sealed)

/// A token that is to be stored in place of another one.
package typealias ResealedToken = (id: Int64, old: DeviceTokenKeys.Sealed, new: DeviceTokenKeys.Sealed)

private let input = InputColumns<ResealedToken>([
    .init("id") { $0.id }, .init("old") { $0.old.bytes }, .init("token_key") { $0.new.keyID },
    .init("token") { $0.new.bytes },
])

/// Result of sealing tokens with the current key.
package struct ResealedTokens: Hashable, Sendable {
    package var resealed = 0
    /// Number of tokens by the id of the key that does not open them.
    package var unreadable: [String: Int] = [:]
}

/// A token that a registration has replaced meanwhile stays.
private let resealSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i"))
    ), held AS (
        SELECT r.id, i.token_key, i.token FROM input i JOIN registration r ON r.id = i.id AND r.token = i.old
        ORDER BY r.id FOR NO KEY UPDATE OF r
    )
    UPDATE registration r SET token_key = h.token_key, token = h.token FROM held h WHERE r.id = h.id RETURNING r.id
    """

extension PostgresStatement where Self == Statements {
    /// Tokens behind an id that are sealed with another key than the given one.
    package static func tokensToReseal(except key: String, after id: Int64) -> PostgresQuery<StoredToken> {
        PostgresQuery(
            """
            SELECT r.id, r.app_id, r.user_id, r.device_id, r.token_key, r.token FROM registration r
            WHERE r.id > $2::int8 AND r.token_key <> $1::text ORDER BY r.id LIMIT 500
            """, key, id
        ) { row in
            try StoredToken(
                id: row.value("id"),
                owner: DeviceTokenKeys.Owner(
                    appID: row.value("app_id"), user: row.value("user_id"), device: row.value("device_id")),
                sealed: DeviceTokenKeys.Sealed(keyID: row.value("token_key"), bytes: row.value("token")))
        }
    }

    /// Replaces tokens. Answers the rows that were written.
    package static func resealTokens(_ tokens: [ResealedToken]) -> PostgresQuery<Int64> {
        PostgresQuery(resealSQL, binding: input.parameters(tokens)) { row in try row.value("id") }
    }
}

extension WidgetStore {
    /// Seals every stored token that is sealed with an earlier key with the current one.
    package func resealTokens(with keys: DeviceTokenKeys) async throws -> ResealedTokens {
        var (result, last) = (ResealedTokens(), Int64(0))
        while true {
            let tokens = try await query(.tokensToReseal(except: keys.current, after: last))
            guard let end = tokens.last?.id else { return result }
            last = end
            var resealed: [ResealedToken] = []
            for token in tokens {
                do throws(DeviceTokenKeys.Unreadable) {
                    let new = try keys.seal(try keys.open(token.sealed, for: token.owner), for: token.owner)
                    resealed.append((id: token.id, old: token.sealed, new: new))
                } catch {
                    result.unreadable[token.sealed.keyID, default: 0] += 1
                }
            }
            result.resealed += try await query(.resealTokens(resealed)).count
        }
    }
}
