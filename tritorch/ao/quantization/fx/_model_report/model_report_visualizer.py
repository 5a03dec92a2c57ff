"""Tables and plots of reports."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tritorch import Tensor

try:
    from tabulate import tabulate  # type: ignore[import-untyped, unused-ignore]

    got_tabulate = True
except ImportError:
    got_tabulate = False

try:
    import matplotlib.pyplot as plt

    got_matplotlib = True
except ImportError:
    got_matplotlib = False

_Table = tuple[list[Any], list[Any]]
_MISSING = "Not Applicable"


class ModelReportVisualizer:
    """Shows features of modules, which reports have by the modules' paths: numbers, tensors without
    dims, or a value a channel."""

    TABLE_TENSOR_KEY = "tensor_level_info"
    TABLE_CHANNEL_KEY = "channel_level_info"
    NUM_NON_FEATURE_TENSOR_HEADERS = 2
    NUM_NON_FEATURE_CHANNEL_HEADERS = 3
    CHANNEL_NUM_INDEX = 2

    def __init__(self, generated_reports: OrderedDict[str, Any]) -> None:
        self.generated_reports = generated_reports

    def get_all_unique_module_fqns(self) -> set[str]:
        """The paths of the modules."""
        return set(self.generated_reports)

    def get_all_unique_feature_names(self, plottable_features_only: bool = True) -> set[str]:
        """The names of the features, all or those that are tensors."""
        return {
            name
            for features in self.generated_reports.values()
            for name, value in features.items()
            if not plottable_features_only or type(value) is Tensor
        }

    def _get_filtered_data(
        self, feature_filter: str, module_fqn_filter: str
    ) -> OrderedDict[str, Any]:
        """The features whose names have the one text, of modules whose paths have the other."""
        return OrderedDict(
            (path, {name: value for name, value in features.items() if feature_filter in name})
            for path, features in self.generated_reports.items()
            if module_fqn_filter in path
        )

    def _generate_tensor_table(
        self, filtered_data: OrderedDict[str, dict[str, Any]], tensor_features: list[str]
    ) -> _Table:
        """A row for each module."""
        if not tensor_features or not filtered_data:
            return [], []
        rows = []
        for index, (path, features) in enumerate(filtered_data.items()):
            values = [features.get(name, _MISSING) for name in tensor_features]
            rows.append([index, path, *map(_plain, values)])
        return ["idx", "layer_fqn", *tensor_features], rows

    def _generate_channels_table(
        self, filtered_data: OrderedDict[str, Any], channel_features: list[str], num_channels: int
    ) -> _Table:
        """A row for each channel of each module."""
        rows: list[list[Any]] = []
        for path, features in filtered_data.items() if channel_features else ():
            for channel in range(num_channels):
                values = [
                    _plain(features[name][channel]) if name in features else _MISSING
                    for name in channel_features
                ]
                rows.append([len(rows), path, channel, *values])
        headers = ["idx", "layer_fqn", "channel", *channel_features] if rows else []
        return headers, rows

    def generate_filtered_tables(
        self, feature_filter: str = "", module_fqn_filter: str = ""
    ) -> dict[str, _Table]:
        """Headers and rows of two tables: features of modules, and of channels."""
        data = self._get_filtered_data(feature_filter, module_fqn_filter)
        of_modules: set[str] = set()
        of_channels: set[str] = set()
        num_channels = 0
        for features in data.values():
            for name, value in features.items():
                if isinstance(value, list) or (isinstance(value, Tensor) and value.ndim != 0):
                    of_channels.add(name)
                    num_channels = len(value)
                else:
                    of_modules.add(name)
        return {
            self.TABLE_TENSOR_KEY: self._generate_tensor_table(data, sorted(of_modules)),
            self.TABLE_CHANNEL_KEY: self._generate_channels_table(
                data, sorted(of_channels), num_channels
            ),
        }

    def generate_table_visualization(
        self, feature_filter: str = "", module_fqn_filter: str = ""
    ) -> None:
        """Prints the tables."""
        if not got_tabulate:
            print("Make sure to install tabulate and try again.")
            return
        tables = self.generate_filtered_tables(feature_filter, module_fqn_filter)
        text = ""
        headers, rows = tables[self.TABLE_TENSOR_KEY]
        if len(headers) > self.NUM_NON_FEATURE_TENSOR_HEADERS:
            text += "Tensor Level Information \n" + tabulate(rows, headers=headers)
        headers, rows = tables[self.TABLE_CHANNEL_KEY]
        if len(headers) > self.NUM_NON_FEATURE_CHANNEL_HEADERS:
            text += "\n\n Channel Level Information \n" + tabulate(rows, headers=headers)
        print(text or "No data points to generate table with.")

    def _get_plottable_data(
        self, feature_filter: str, module_fqn_filter: str
    ) -> tuple[list[Any], list[Any], bool]:
        """Indices of modules and the values of one feature: one a module, or a list a channel; and
        whether it is of channels."""
        tables = self.generate_filtered_tables(feature_filter, module_fqn_filter)
        headers, rows = tables[self.TABLE_TENSOR_KEY]
        channel_headers, channel_rows = tables[self.TABLE_CHANNEL_KEY]
        column = self.NUM_NON_FEATURE_TENSOR_HEADERS
        channel_column = self.NUM_NON_FEATURE_CHANNEL_HEADERS
        of_channels = len(channel_headers) - channel_column == 1
        if len(headers) - column == 1:
            if of_channels:
                rows, column = channel_rows, channel_column
            points = [(x, row[column]) for x, row in enumerate(rows)]
            points = [(x, y) for x, y in points if type(y) is not str]
            return [x for x, _ in points], [y for _, y in points], of_channels
        if not of_channels:
            raise ValueError(
                "Make sure to pick only a single feature with your filter to plot a graph. "
                "We recommend calling get_all_unique_feature_names() to find unique feature names. "
                "Pick one of those features to plot."
            )
        count = max(row[self.CHANNEL_NUM_INDEX] for row in channel_rows) + 1
        modules: list[int] = []
        values: list[list[Any]] = [[] for _ in range(count)]
        for index, row in enumerate(channel_rows):
            if type(row[channel_column]) is not str:
                if modules[-1:] != [index // count]:
                    modules.append(index // count)
                values[row[self.CHANNEL_NUM_INDEX]].append(row[channel_column])
        return modules, values, True

    def generate_plot_visualization(self, feature_filter: str, module_fqn_filter: str = "") -> None:
        """Plots one feature over modules; of channels, their average."""
        if not got_matplotlib:
            print("make sure to install matplotlib and try again.")
            return
        x, y, of_channels = self._get_plottable_data(feature_filter, module_fqn_filter)
        axes = plt.subplot()
        axes.set_ylabel(feature_filter)
        axes.set_title(f"{feature_filter} Plot")
        plt.xticks(x)
        if of_channels:
            axes.set_xlabel("First idx of module")
            means = [sum(values) / len(y) for values in zip(*y)]
            axes.plot(x, means, label=f"Average Value Across {len(y)} Channels")
            axes.legend(loc="upper right")
        else:
            axes.set_xlabel("idx")
            axes.plot(x, y)
        plt.show()

    def generate_histogram_visualization(
        self, feature_filter: str, module_fqn_filter: str = "", num_bins: int = 10
    ) -> None:
        """Plots how often a feature has which values."""
        if not got_matplotlib:
            print("make sure to install matplotlib and try again.")
            return
        _, y, of_channels = self._get_plottable_data(feature_filter, module_fqn_filter)
        axes = plt.subplot()
        axes.set_xlabel(feature_filter)
        axes.set_ylabel("Frequency")
        axes.set_title(f"{feature_filter} Histogram")
        values = [value for channel in y for value in channel] if of_channels else y
        _, bins, _ = plt.hist(values, bins=num_bins, stacked=of_channels, rwidth=0.8)
        plt.xticks(bins)
        plt.show()


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, Tensor) else value
