// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import FreshetService
import WidgetModel

/// Options that shape a synthetic stream.
struct StreamOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "Popularity of people and kinds, and profile of the rate: \(StreamDistribution.form).",
            valueName: "form"))
    var distribution = "uniform"

    @Option(help: "Audiences of events, with weights: user, device, widget, everyone.")
    var audiences = "user=90,device=8,widget=2"

    @Option(help: "Types of events, with weights: push, foreground, background.")
    var types = "push"

    @Option(help: "Length of a day of the diurnal rate, such as 60s.")
    var day = "60s"

    func validate() throws {
        _ = try shape()
    }

    /// - Throws: `ValidationError`, which names the option.
    func plan(of world: LoadWorld, rate: Double, seed: UInt64) throws -> StreamPlan {
        let (distribution, audiences, reasons) = try shape()
        return StreamPlan(
            world: world, distribution: distribution, audiences: audiences, reasons: reasons, rate: rate,
            seed: seed)
    }

    private func shape() throws -> (
        StreamDistribution, WeightedChoice<StreamAudience>, WeightedChoice<ReloadReason>
    ) {
        guard let length = Duration(text: day), length >= .seconds(1), length <= .seconds(31 * 86_400) else {
            throw ValidationError("--day \(day): expected \(Duration.textForm), from 1s to 31d")
        }
        func read<Value>(_ option: String, _ body: () throws(ValidationError) -> Value) throws -> Value {
            do throws(ValidationError) {
                return try body()
            } catch {
                throw ValidationError("--\(option) \(error.message)")
            }
        }
        return (
            try read("distribution") { () throws(ValidationError) in
                try StreamDistribution.parse(distribution, day: length / .seconds(1))
            },
            try read("audiences") { () throws(ValidationError) in
                try WeightedChoice(audiences, of: StreamPlan.audiences)
            },
            try read("types") { () throws(ValidationError) in try WeightedChoice(types, of: StreamPlan.reasons) }
        )
    }
}

/// Options of a stream at a fixed rate whose every event is for one timeline.
struct SteadyStreamOptions: ParsableArguments {
    @Option(help: "Events a second; more than a service drains pile up.", transform: OptionText.number(0.1...1_000_000))
    var rate = 1_000.0

    @OptionGroup var world: LoadWorldOptions
    @OptionGroup var stream: StreamOptions

    func validate() throws { _ = try plan(seed: 1) }

    /// - Throws: `ValidationError` where an event would be for several timelines.
    func plan(seed: UInt64) throws -> StreamPlan {
        let world = world.world
        let plan = try stream.plan(of: world, rate: rate, seed: seed)
        guard !plan.audiences.contains(.everyone) else {
            throw ValidationError(
                "--audiences \(stream.audiences): each event is to be for one timeline, so none for everyone")
        }
        guard world.widgetsPerUser <= world.kinds.count || plan.audiences == WeightedChoice(StreamAudience.widget)
        else {
            throw ValidationError(
                "--widgets-per-user \(world.widgetsPerUser): a person has several widgets of a kind, so an event for a "
                    + "person or a device is for several timelines; expected --audiences widget, or more --kinds")
        }
        return plan
    }
}

/// A length of time on the command line: whole seconds, or with a unit (`90s`, `30m`, `2h`).
struct LoadDuration: ExpressibleByArgument, Sendable {
    let length: Duration

    init(_ length: Duration) {
        self.length = length
    }

    init?(argument: String) {
        if let seconds = Int(argument), (0...1_000_000_000).contains(seconds) {
            length = .seconds(seconds)
        } else if let length = Duration(text: argument) {
            self.length = length
        } else {
            return nil
        }
    }

    var defaultValueDescription: String { length.text }

    func check(as option: String, in range: ClosedRange<Duration>) throws {
        guard range.contains(length) else {
            throw ValidationError(
                "\(option) \(length.text): expected \(range.lowerBound.text) to "
                    + range.upperBound.text)
        }
    }
}
