import WidgetModel

extension SettingKey {
    static func text(
        _ name: String, _ path: any WritableKeyPath<Settings, String> & Sendable, limit: Int = 256, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: "1 to \(limit) bytes of text", isSecret: false, shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                guard (1...limit).contains(text.utf8.count) else { throw SettingMismatch() }
                settings[keyPath: path] = text
            },
            write: { $0[keyPath: path] })
    }

    static func optionalText(
        _ name: String, _ path: any WritableKeyPath<Settings, String?> & Sendable, expectation: String,
        isSecret: Bool = false, isValid: @escaping @Sendable (String) -> Bool = { _ in true }, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: isSecret, shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                guard (1...16_384).contains(text.utf8.count), isValid(text) else { throw SettingMismatch() }
                settings[keyPath: path] = text
            },
            write: { $0[keyPath: path] })
    }

    /// The name of a topic, in Kafka's characters.
    static func topic(
        _ name: String, _ path: any WritableKeyPath<Settings, String> & Sendable, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: "1 to 249 letters, digits, dots, underscores or hyphens",
            isSecret: false, shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                guard (1...249).contains(text.utf8.count), SettingText.isKafkaName(text), text != ".", text != ".."
                else {
                    throw SettingMismatch()
                }
                settings[keyPath: path] = text
            },
            write: { $0[keyPath: path] })
    }

    static func integer(
        _ name: String, _ path: any WritableKeyPath<Settings, Int> & Sendable, _ range: ClosedRange<Int>,
        _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: "\(range.lowerBound) to \(range.upperBound)", isSecret: false,
            shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                settings[keyPath: path] = try SettingText.integer(text, in: range)
            },
            write: { "\($0[keyPath: path])" })
    }

    static func optionalInteger(
        _ name: String, _ path: any WritableKeyPath<Settings, Int?> & Sendable, _ range: ClosedRange<Int>,
        _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: "\(range.lowerBound) to \(range.upperBound)", isSecret: false,
            shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                settings[keyPath: path] = try SettingText.integer(text, in: range)
            },
            write: { $0[keyPath: path].map { "\($0)" } })
    }

    static func duration(
        _ name: String, _ path: any WritableKeyPath<Settings, Duration> & Sendable, _ range: ClosedRange<Duration>,
        _ summary: String
    ) -> SettingKey {
        let bounds = "\(DurationText.write(range.lowerBound)) to \(DurationText.write(range.upperBound))"
        return SettingKey(
            name: name, summary: summary, expectation: bounds, isSecret: false, shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                guard let duration = DurationText.parse(text) else {
                    throw SettingMismatch(reason: "is not \(DurationText.form)")
                }
                guard range.contains(duration) else { throw SettingMismatch(reason: "is out of range") }
                settings[keyPath: path] = duration
            },
            write: { DurationText.write($0[keyPath: path]) })
    }

    static func choice<Value: RawRepresentable<String> & CaseIterable & Sendable>(
        _ name: String, _ path: any WritableKeyPath<Settings, Value> & Sendable, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: Value.allCases.map(\.rawValue).joined(separator: ", "),
            isSecret: false, shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                guard let value = Value(rawValue: text) else { throw SettingMismatch() }
                settings[keyPath: path] = value
            },
            write: { $0[keyPath: path].rawValue })
    }

    static func flag(
        _ name: String, _ path: any WritableKeyPath<Settings, Bool> & Sendable, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: "true, false", isSecret: false, shape: .scalar,
            assign: { settings, text throws(SettingMismatch) in
                guard let value = Bool(text) else { throw SettingMismatch() }
                settings[keyPath: path] = value
            },
            write: { "\($0[keyPath: path])" })
    }

    /// A list whose items `isValid` accepts.
    static func list(
        _ name: String, _ path: any WritableKeyPath<Settings, [String]> & Sendable, expectation: String,
        isValid: @escaping @Sendable (String) -> Bool, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: false, shape: .list,
            assign: { settings, text throws(SettingMismatch) in
                let items = SettingText.split(text)
                if let wrong = items.first(where: { !isValid($0) }) {
                    throw SettingMismatch(reason: "holds \(Text.quoted(wrong))")
                }
                settings[keyPath: path] = items
            },
            write: { SettingText.join($0[keyPath: path]) })
    }

    /// Names with values that `isValid` accepts.
    static func map(
        _ name: String, _ path: any WritableKeyPath<Settings, [String: String]> & Sendable, expectation: String,
        isSecret: Bool = false, isValid: @escaping @Sendable (String, String) -> Bool, _ summary: String
    ) -> SettingKey {
        SettingKey(
            name: name, summary: summary, expectation: expectation, isSecret: isSecret, shape: .map,
            assign: { settings, text throws(SettingMismatch) in
                for pair in SettingText.split(text) {
                    let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                        .map { String($0).trimmingWhitespace() }
                    guard parts.count == 2, isValid(parts[0], parts[1]) else {
                        let shown = isSecret ? "has a part that is not name=value" : "holds \(Text.quoted(pair))"
                        throw SettingMismatch(reason: shown)
                    }
                    settings[keyPath: path][parts[0]] = parts[1]
                }
            },
            write: { settings in
                SettingText.join(settings[keyPath: path].sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" })
            })
    }
}

/// The text of values. Lists are separated by commas, with `\,` for a comma and `\\` for a backslash within an item.
enum SettingText {
    /// Whether it has only characters that Kafka allows in names.
    static func isKafkaName(_ text: String) -> Bool {
        text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "._-".contains($0)) }
    }

    static func integer(_ text: String, in range: ClosedRange<Int>) throws(SettingMismatch) -> Int {
        guard let number = Int(text) else { throw SettingMismatch(reason: "is not a whole number") }
        guard range.contains(number) else { throw SettingMismatch(reason: "is out of range") }
        return number
    }

    static func split(_ text: String) -> [String] {
        var items: [String] = []
        var item = ""
        var isEscaped = false
        for character in text {
            if isEscaped {
                // A backslash before another character stands for itself.
                if character != ",", character != "\\" { item.append("\\") }
                item.append(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "," {
                items.append(item)
                item = ""
            } else {
                item.append(character)
            }
        }
        if isEscaped { item.append("\\") }
        items.append(item)
        return items.map { $0.trimmingWhitespace() }.filter { !$0.isEmpty }
    }

    static func join(_ items: [String]) -> String {
        items.map { item in
            item.reduce(into: "") { result, character in
                if character == "," || character == "\\" { result.append("\\") }
                result.append(character)
            }
        }.joined(separator: ",")
    }
}

extension String {
    fileprivate func trimmingWhitespace() -> String {
        guard let first = firstIndex(where: { !$0.isWhitespace }), let last = lastIndex(where: { !$0.isWhitespace })
        else { return "" }
        return String(self[first...last])
    }
}
