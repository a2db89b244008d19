package import WidgetModel
package import WidgetStore

extension AppSecrets {
    /// Without the secrets.
    package var json: JSONValue {
        [
            "app": .string(name), "developerMode": .bool(isDeveloperMode), "secretReplacedAt": .time(replacedAt),
            "previousSecretExpiresAt": .time(previousExpiresAt),
        ]
    }
}

extension WidgetStore.SecretRotation {
    /// - Parameter secret: the new secret, if it is to be told.
    package func json(telling secret: SigningSecret?) -> JSONValue {
        guard case .object(var object) = secrets.json else { return secrets.json }
        object["changed"] = .bool(isChanged)
        if let secret { object["secret"] = .string(secret.exposed) }
        return .object(object)
    }
}
