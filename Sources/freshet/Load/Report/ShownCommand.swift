import Foundation

/// The command line as a report shows it: values that may hold secrets are left out.
enum ShownCommand {
    private static let hidden: Set<String> = ["--database"]

    static func text(_ arguments: [String]) -> String {
        var shown = ["freshet"]
        var next: String?
        for argument in arguments.dropFirst() {
            if let option = next {
                shown.append(value(argument, of: option))
                next = nil
            } else if let equals = argument.firstIndex(of: "="), argument.hasPrefix("--") {
                let option = String(argument[..<equals])
                shown.append(option + "=" + value(String(argument[argument.index(after: equals)...]), of: option))
            } else {
                shown.append(quoted(argument))
                if hidden.contains(argument) || argument == "--set" { next = argument }
            }
        }
        return shown.joined(separator: " ")
    }

    private static func value(_ text: String, of option: String) -> String {
        if hidden.contains(option) { return "…" }
        guard option == "--set", let equals = text.firstIndex(of: "=") else { return quoted(text) }
        let key = String(text[..<equals])
        // Of settings only those are shown that are known to hold none.
        let isPlain = SettingKey.all.contains { $0.name == key && !$0.isSecret }
        return isPlain ? quoted(text) : key + "=…"
    }

    private static func quoted(_ text: String) -> String {
        let isPlain =
            !text.isEmpty && text.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "-_./:=,+%@".contains($0)) }
        return isPlain ? text : "'" + text.replacingOccurrences(of: "'", with: "'\\''") + "'"
    }
}
