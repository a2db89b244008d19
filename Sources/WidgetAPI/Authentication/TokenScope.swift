package import WidgetModel

/// What a token lets its bearer do in its app.
package enum TokenScope: String, CaseIterable, Sendable {
    /// Register, change and retire kinds.
    case kindsWrite = "kinds:write"
    /// Read kinds, widgets and timelines.
    case widgetsRead = "widgets:read"
    /// Place, configure, view and remove widgets, and change the environment of devices.
    case widgetsWrite = "widgets:write"
    /// Ask for reloads.
    case reload
    /// Explain, pause and resume, forecasts, dead letters, and reloads that nothing holds back.
    case operate
}

/// Who asks: what a token that was verified says.
package struct Principal: Hashable, Sendable {
    /// The one app that it is bound to.
    package let app: String
    /// The one user that a device token is bound to.
    package let user: String?
    package let scopes: Set<TokenScope>
    /// For logs: the token's subject and id (`sub`, `jti`), as its issuer named them.
    package let subject: String?
    package let tokenID: String?
    /// Stands for the token where it must be told from others; it cannot be used as one.
    package let fingerprint: ContentHash
    /// The times between which it is valid, without leeway.
    package let notBefore: Timestamp?
    package let expiresAt: Timestamp

    package func has(_ scope: TokenScope) -> Bool { scopes.contains(scope) }

    /// For the audit log.
    package var name: String {
        let parts = [subject, tokenID.map { "token \($0)" }].compactMap { $0 }
        return parts.isEmpty ? "token \(fingerprint.description.prefix(8))" : parts.joined(separator: ", ")
    }
}
