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
        JSONWriter.object(capacity: 64 + items.count * 224) { body in
            body.appendArray("requests") { requests in
                for item in items { append(item, to: &requests) }
            }
        }
    }

    private static func append(_ item: Item, to requests: inout JSONWriter) {
        let identity = item.identity
        requests.appendObject { request in
            request.append("id", item.id.description)
            request.append("kind", identity.kind)
            request.append("configuration", json: identity.configuration.canonical.utf8)
            request.append("family", identity.family?.name)
            if identity.locale != nil || identity.timeZone != nil {
                request.append("environment") {
                    $0.append("locale", identity.locale)
                    $0.append("timeZone", identity.timeZone)
                }
            }
            request.append("user", identity.user)
        }
    }
}
