package import WidgetModel

extension QuickRequest {
    /// The request as the decoder would have it.
    package func decoded(from bytes: [UInt8]) -> ReloadRequest {
        func text(_ slice: Slice) -> String { String(decoding: bytes[slice.range], as: UTF8.self) }
        let audience: Audience =
            switch sort {
            case .user: .user(text(self.audience))
            case .device: .device(text(self.audience))
            case .widget: .widget(text(self.audience))
            case .everyone: .everyone
            }
        var names: [String] = []
        var place: Int?
        while let kind = nextKind(after: &place, in: bytes.span.bytes) { names.append(text(kind)) }
        return ReloadRequest(
            app: text(app), audience: audience, kinds: KindScope(names: names) ?? .all, reason: reason)
    }
}
