/// The command line as a report shows it: without values of settings, which may be secrets.
enum ShownCommand {
    static func text(_ arguments: [String]) -> String {
        var shown = ["freshet-load"]
        var isSetting = false
        for argument in arguments.dropFirst() {
            let assignment = isSetting ? argument[...] : argument.hasPrefix("--set=") ? argument.dropFirst(6) : nil
            if let assignment {
                if !isSetting { shown.append("--set") }
                shown.append("\(assignment.prefix { $0 != "=" })=…")
            } else {
                shown.append(argument.contains(" ") ? "'\(argument)'" : argument)
            }
            isSetting = argument == "--set"
        }
        return shown.joined(separator: " ")
    }
}
