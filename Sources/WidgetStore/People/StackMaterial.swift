// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
package import WidgetModel

/// Input of the planning of some people's stacks.
package struct StackMaterial: Sendable {
    package typealias Person = (appID: Int32, user: String)

    private typealias Name = ScopedIdentifier

    private var records: [Name: PersonRecord] = [:]
    /// People whose stored state cannot be read: nothing is planned for them.
    private var unreadable: Set<Name> = []
    private var widgets: [Name: [PlannedWidget]] = [:]
    /// Suggestions that are recorded as begun.
    private var recorded: [Name: [BegunSuggestion]] = [:]
    /// Stacks with a schedule.
    private var scheduled: [Name: [StackPlan.Key]] = [:]
    /// Plans with suggestions.
    private var suggesting: [Name: [StackPlan]] = [:]
    /// By timeline, with what the relevance in the database does not know yet.
    private var relevance: [Int64: RelevanceRecord] = [:]
    /// Relevance to be stored.
    package private(set) var relevanceWrites: [RelevanceWrite] = []
    private let directory: KindDirectory

    /// Reads people and their widgets on a pool.
    package static func read(
        _ people: [Person], from pool: PostgresPool, _ directory: KindDirectory
    ) async throws -> StackMaterial {
        var names: Set<Name> = []
        let people = people.filter { names.insert(Name($0)).inserted }
        var pipeline = PostgresPipeline()
        let stored = pipeline.append(.readPeople(of: people))
        let widgets = pipeline.append(.readPlannedWidgets(of: people))
        let schedules = pipeline.append(.readSchedules(of: people))
        let results = try await pool.run(pipeline)
        return StackMaterial(
            people: results.rows(stored), widgets: results.rows(widgets), schedules: results.rows(schedules), directory)
    }

    init(
        people: [StoredPerson], widgets: [PlannedWidget],
        schedules: [(appID: Int32, key: StackPlan.Key, plan: StackPlan?)], _ directory: KindDirectory
    ) {
        self.directory = directory
        let apps = Dictionary(directory.apps.values.map { ($0.id, $0.name) }) { $1 }
        for person in people {
            let name = Name(person.appID, person.user)
            recorded[name] = person.suggested
            if let record = try? person.record(app: apps[person.appID] ?? "") {
                records[name] = record
            } else {
                unreadable.insert(name)
            }
        }
        for (appID, key, plan) in schedules {
            scheduled[Name(appID, key.user), default: []].append(key)
            if let plan { suggesting[Name(appID, key.user), default: []].append(plan) }
        }
        for widget in widgets {
            self.widgets[Name(widget.appID, widget.user), default: []].append(widget)
            guard relevance[widget.timeline] == nil else { continue }
            let (record, write) = widget.stored.recorded(always: true)
            relevance[widget.timeline] = record
            if let write { relevanceWrites.append(write) }
        }
    }

    /// Beginnings of suggestions on a device during the 24 hours before a time, whatever stacks they were in.
    private func suggestions(on device: String, of person: Person, before time: Timestamp) -> [Timestamp] {
        let name = Name(person)
        let recorded = (recorded[name] ?? []).filter { Text.equal($0.device, device) }.map(\.at)
        let planned = (suggesting[name] ?? []).filter { Text.equal($0.key.device, device) }
        return recorded + planned.flatMap { $0.suggestions(before: time) }
    }

    /// Suggestions of a plan that have begun before a time, so long ago that they count, and are not recorded.
    package func unrecorded(
        of plan: StackPlan?, person: Person, before time: Timestamp
    ) -> [(person: Person, begun: BegunSuggestion)] {
        guard let plan, !plan.schedule.insertions.isEmpty else { return [] }
        let known = recorded[Name(person)] ?? []
        let settled = plan.suggestions(before: time).filter { $0 <= time - StackSchedule.Insertion.showingTime }
        return settled.map { BegunSuggestion(device: plan.key.device, at: $0) }
            .filter { !known.contains($0) }.map { (person, $0) }
    }

    /// The planner of a device's stacks. An app in developer mode has no limits of rotations and suggestions.
    package func planner(
        for device: String, of person: Person, app: String, policy: RotationPolicy, at time: Timestamp
    ) -> PersonPlanner {
        var policy = policy
        if directory.apps[app]?.isDeveloperMode == true { policy.liftLimits() }
        let kinds = directory.apps[app].map { directory.kinds(of: $0) } ?? [:]
        return PersonPlanner(
            app: app, device: device, person: records[Name(person)] ?? PersonRecord(),
            widgets: placed(on: device, of: person).compactMap { widget in
                guard let kind = directory.kinds[widget.kindID], !kind.isRetired else { return nil }
                return PersonPlanner.Widget(
                    id: widget.widget, kind: kind.definition, family: widget.family,
                    configuration: widget.configuration, timeZone: widget.environment.timeZone,
                    relevance: relevance[widget.timeline] ?? RelevanceRecord(), isRendered: widget.isRendered)
            }, kinds: kinds.mapValues(\.definition), policy: policy,
            suggestedAt: suggestions(on: device, of: person, before: time),
            readStacks: (scheduled[Name(person)] ?? []).filter { Text.equal($0.device, device) }.map(\.stack))
    }

    /// Whether the stored state of a person can be read; also true for a person without any.
    package func isReadable(_ person: Person) -> Bool { !unreadable.contains(Name(person)) }

    /// Widgets on a device.
    package func placed(on device: String, of person: Person) -> [PlannedWidget] {
        (widgets[Name(person)] ?? []).filter { Text.equal($0.device, device) }
    }

    /// A person's stacks that have widgets.
    package func stacks(of person: Person) -> [StackArrangement] {
        (records[Name(person)]?.stacks ?? []).map(\.arrangement).filter { !$0.widgets.isEmpty }
    }
}

extension ScopedIdentifier {
    fileprivate init(_ person: StackMaterial.Person) { self.init(person.appID, person.user) }
}
