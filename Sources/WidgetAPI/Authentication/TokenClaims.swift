import Foundation
import JSON
import JWTKit
import WidgetModel

/// The claims of a token, as issued and as verified.
struct TokenClaims: JWTPayload {
    var app: String
    var user: String?
    var scope: ScopeClaim?
    var sub: String?
    var iss: String?
    var aud: AudienceClaim?
    var iat: Double?
    var nbf: Double?
    var exp: Double
    var jti: String?

    /// Decodes tokens for ``TokenVerifier``.
    static let parser = DefaultJWTParser(jsonDecoder: StrictJSONDecoder())

    /// The times depend on the clock, so ``TokenVerifier`` checks them each time a token is used.
    func verify(using algorithm: some JWTAlgorithm) async throws {}
}

extension TokenClaims {
    init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        // A member that is null is an error: it is not the same as none.
        func optional<Value: Decodable>(_ key: CodingKeys) throws -> Value? {
            container.contains(key) ? try container.decode(Value.self, forKey: key) : nil
        }
        app = try container.decode(String.self, forKey: .app)
        exp = try container.decode(Double.self, forKey: .exp)
        user = try optional(.user)
        scope = try optional(.scope)
        sub = try optional(.sub)
        iss = try optional(.iss)
        aud = try optional(.aud)
        iat = try optional(.iat)
        nbf = try optional(.nbf)
        jti = try optional(.jti)
    }
}

/// Names of scopes: text with spaces between them, or an array.
struct ScopeClaim: Codable {
    let names: [String]

    init(_ scopes: [TokenScope]) {
        names = scopes.map(\.rawValue)
    }

    init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        if let text = try? container.decode(String.self) {
            names = text.split(separator: " ").map(String.init)
        } else {
            names = try container.decode([String].self)
        }
    }

    func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(names.joined(separator: " "))
    }

    /// The scopes that Freshet knows. An issuer may grant others too.
    var known: Set<TokenScope> { Set(names.compactMap { TokenScope(rawValue: $0) }) }
}

/// Decodes JSON without duplicate members, which two readers could read differently.
private struct StrictJSONDecoder: JWTJSONDecoder {
    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        _ = try JSONValue.parse(Array(data), maximumDepth: 8, checksNumbers: false)
        return try JSONDecoder().decode(type, from: data)
    }
}
