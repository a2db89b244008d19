import JSON

/// Body of a request to a provider, for timelines of any of the app's kinds that share its URL:
/// `{"requests": [{"id", "kind", "configuration", "family"?, "environment"?, "user"?}]}`.
package enum ProviderRequest {
    package struct Item: Sendable {
        package let id: TimelineID
        package let identity: TimelineIdentity

        package init(id: TimelineID, identity: TimelineIdentity) {
            self.id = id
            self.identity = identity
        }
    }

    /// Returns the body. It leaves out properties that are not in the timeline's identity, so that the answer cannot
    /// depend on them.
    package static func encode(_ items: [Item]) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(64 + items.count * 224)
        out.append(contentsOf: "{\"requests\":[".utf8)
        for index in items.indices {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            append(items[index], to: &out)
        }
        out.append(contentsOf: "]}".utf8)
        return out
    }

    private static func append(_ item: Item, to out: inout [UInt8]) {
        let identity = item.identity
        var members = JSONObjectWriter()
        members.append("id", item.id.description)
        members.append("kind", identity.kind)
        members.append("configuration", json: identity.configuration.canonical.utf8)
        members.append("family", identity.family?.name)
        if identity.locale != nil || identity.timeZone != nil {
            var environment = JSONObjectWriter()
            environment.append("locale", identity.locale)
            environment.append("timeZone", identity.timeZone)
            members.append("environment", json: environment.finish())
        }
        members.append("user", identity.user)
        out.append(contentsOf: members.finish())
    }
}
