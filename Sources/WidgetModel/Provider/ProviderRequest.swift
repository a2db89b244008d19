/// Body of a request to a provider, for timelines of any of the app's kinds that share its URL:
/// `{"requests": [{"id", "kind", "configuration", "family"?, "environment"?, "user"?}]}`.
package struct ProviderRequest: Sendable {
    package struct Item: Sendable {
        package let id: TimelineID
        package let identity: TimelineIdentity

        package init(id: TimelineID, identity: TimelineIdentity) {
            self.id = id
            self.identity = identity
        }
    }

    package let items: [Item]

    package init(items: [Item]) {
        self.items = items
    }

    /// The body. Properties that are not in the timeline's identity are left out, so that the answer cannot depend on them.
    package func encode() -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(64 + items.count * 224)
        out.append(contentsOf: "{\"requests\":[".utf8)
        for index in items.indices {
            if index > 0 { out.append(UInt8(ascii: ",")) }
            Self.append(items[index], to: &out)
        }
        out.append(contentsOf: "]}".utf8)
        return out
    }

    private static func append(_ item: Item, to out: inout [UInt8]) {
        let identity = item.identity
        out.append(contentsOf: "{\"id\":\"".utf8)
        out.append(contentsOf: item.id.description.utf8)
        out.append(contentsOf: "\",\"kind\":".utf8)
        JSONWriter.append(identity.kind, to: &out)
        out.append(contentsOf: ",\"configuration\":".utf8)
        out.append(contentsOf: identity.configuration.canonical.utf8)
        if let family = identity.family {
            out.append(contentsOf: ",\"family\":\"".utf8)
            out.append(contentsOf: family.name.utf8)
            out.append(UInt8(ascii: "\""))
        }
        var separator = ",\"environment\":{"
        for (name, value) in [("locale", identity.locale), ("timeZone", identity.timeZone)] {
            guard let value else { continue }
            out.append(contentsOf: separator.utf8)
            JSONWriter.append(name, to: &out)
            out.append(UInt8(ascii: ":"))
            JSONWriter.append(value, to: &out)
            separator = ","
        }
        if separator == "," { out.append(UInt8(ascii: "}")) }
        if let user = identity.user {
            out.append(contentsOf: ",\"user\":".utf8)
            JSONWriter.append(user, to: &out)
        }
        out.append(UInt8(ascii: "}"))
    }
}
