extension ReloadPolicy {
    /// `"atEnd"`, `"never"` or `{"after": date}`.
    package var json: JSONValue {
        switch self {
        case .atEnd: "atEnd"
        case .never: "never"
        case .after(let date): ["after": .string(date.rfc3339)]
        }
    }
}
