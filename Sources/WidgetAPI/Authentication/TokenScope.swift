package import WidgetModel

/// Permissions of a token within its app.
package enum TokenScope: String, CaseIterable, Sendable {
    /// Register, change and retire kinds, rotate the signing secret, and test providers.
    case kindsWrite = "kinds:write"
    /// Read kinds, widgets and timelines.
    case widgetsRead = "widgets:read"
    /// Place, configure, view and remove widgets, and change the environment of devices.
    case widgetsWrite = "widgets:write"
    /// Request reloads.
    case reload
    /// Publish events of any type but requests for reloads without budget and spacing, which need `operate` too.
    case publish
    /// Read explanations, forecasts, dead letters and whole definitions of kinds.
    case operateRead = "operate:read"
    /// The above, pausing, replaying and discarding dead letters, erasing persons, and reloads without budget and
    /// spacing.
    case operate
}

/// The bearer of a verified token.
package struct Principal: Hashable, Sendable {
    /// The app that the token is bound to.
    package let app: String
    /// The user that a device token is bound to.
    package let user: String?
    package let scopes: Set<TokenScope>
    /// The token's `sub` and `jti`, for logs.
    package let subject: String?
    package let tokenID: String?
    /// Hash of the token, which identifies it without being usable as one.
    package let fingerprint: ContentHash
    /// Times between which the token is valid, without leeway.
    package let notBefore: Timestamp?
    package let expiresAt: Timestamp

    package func has(_ scope: TokenScope) -> Bool {
        scopes.contains(scope) || scope == .operateRead && scopes.contains(.operate)
    }

    /// Name for the audit log.
    package var name: String {
        let parts = [subject, tokenID.map { "token \($0)" }].compactMap { $0 }
        return parts.isEmpty ? "token \(fingerprint.description.prefix(8))" : parts.joined(separator: ", ")
    }
}
