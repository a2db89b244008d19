// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import Foundation

/// Commands in documents.
package enum DocumentedCommands {
    /// Finds a program's commands in the document's code blocks and code spans.
    package static func find(_ program: String, in document: String) -> [String] {
        var commands: [String] = []
        var isBlock = false
        var continued = ""
        // A code span may cross a line end, but not the end of its paragraph.
        var paragraph = ""
        func endParagraph() {
            let spans = paragraph.split(separator: "`", omittingEmptySubsequences: false).enumerated()
                .filter { $0.offset % 2 == 1 }
            commands += spans.map { String($0.element) }.filter { $0.hasPrefix(program + " ") }
            paragraph = ""
        }
        for line in document.split(separator: "\n", omittingEmptySubsequences: false).map(String.init) {
            let isFence = line.trimmingCharacters(in: .whitespaces).hasPrefix("```")
            if isFence { isBlock.toggle() }
            if isFence || line.isEmpty { endParagraph() }
            guard isBlock, !isFence else {
                if !isFence { paragraph += line + " " }
                continue
            }
            if line.hasSuffix("\\") {
                continued += line.dropLast() + " "
                continue
            }
            let whole = continued + line
            continued = ""
            // A command may follow a pipe, a container's path or variables.
            let code = whole.firstRange(of: " # ").map { String(whole[..<$0.lowerBound]) } ?? whole
            for part in code.split(separator: "|") {
                let words = part.split(whereSeparator: \.isWhitespace)
                guard let start = words.firstIndex(where: { $0 == program || $0.hasSuffix("/" + program) }),
                    words[..<start].allSatisfy({ $0.contains("=") || $0 == "$" || $0 == "sudo" })
                else { continue }
                commands.append(([program] + words[(start + 1)...].map(String.init)).joined(separator: " "))
            }
        }
        endParagraph()
        return commands
    }

    /// Explains why a command is not valid; nil if it is.
    package static func problem(with text: String, of root: any ParsableCommand.Type) -> String? {
        var type = root
        let words = text.split(whereSeparator: \.isWhitespace).dropFirst()
            .map { $0.trimmingCharacters(in: CharacterSet(charactersIn: "[](),;")) }
            .filter { !$0.isEmpty }
        var isPath = true
        var path = root._commandName
        for word in words {
            if word == "…" || word == "..." { isPath = false }
            if word.hasPrefix("-") {
                isPath = false
                let option = String(word.prefix { $0 != "=" })
                guard option.hasPrefix("--"), option.count > 2 else { continue }
                let known = root.helpMessage(for: type).split { !($0.isLetter || $0 == "-" || $0.isNumber) }
                let common = ["--help", "--version", "--generate-completion-script"]
                if !known.contains(where: { $0 == option }), !common.contains(option) {
                    return "\(path) has no option \(option)"
                }
            } else if isPath {
                if let next = type.configuration.subcommands.first(where: { $0._commandName == word }) {
                    type = next
                    path += " \(word)"
                } else if !type.configuration.subcommands.isEmpty {
                    return "\(path) has no command \(word)"
                } else {
                    isPath = false
                }
            }
        }
        return nil
    }
}
