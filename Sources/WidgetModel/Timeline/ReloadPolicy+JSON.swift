extension ReloadPolicy {
    /// `"atEnd"`, `"never"` or `{"after": date}`.
    package var json: JSONValue {
        switch self {
        case .atEnd: "atEnd"
        case .never: "never"
        case .after(let date): ["after": .string(date.rfc3339)]
        }
    }

    /// Appends ``json``, which is in canonical form.
    func appendJSON(to out: inout [UInt8]) {
        switch self {
        case .atEnd: out.append(contentsOf: "\"atEnd\"".utf8)
        case .never: out.append(contentsOf: "\"never\"".utf8)
        case .after(let date):
            out.append(contentsOf: "{\"after\":\"".utf8)
            date.appendRFC3339(to: &out)
            out.append(contentsOf: "\"}".utf8)
        }
    }
}
