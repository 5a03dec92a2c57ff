"""skorch: classifiers and regressors in scikit-learn's pipelines and searches."""

import pickle

import numpy as np
import torch
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier, NeuralNetRegressor
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler
from torch import nn

torch.manual_seed(0)
x = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)


class Net(nn.Module):
    def __init__(self, width=16, out=2):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, out))

    def forward(self, x):
        return self.layers(x)


net = NeuralNetClassifier(
    Net,
    criterion=nn.CrossEntropyLoss,
    max_epochs=15,
    lr=0.05,
    optimizer=torch.optim.Adam,
    verbose=0,
    callbacks=[
        EpochScoring("accuracy", on_train=True),
        EarlyStopping(patience=10),
        LRScheduler("StepLR", step_size=8),
    ],
)
pipeline = make_pipeline(StandardScaler(), net)
assert pipeline.fit(x, y).score(x, y) > 0.9
assert pickle.loads(pickle.dumps(net)).predict(x).shape == (200,)
assert net.predict_proba(x).shape == (200, 2)
net.set_params(callbacks=[], train_split=False)
search = GridSearchCV(net, {"module__width": [4, 16]}, cv=2, scoring="accuracy").fit(x, y)
assert search.best_score_ > 0.8 and cross_val_score(net, x, y, cv=2).shape == (2,)
r = NeuralNetRegressor(
    Net, module__out=1, max_epochs=20, lr=0.02, optimizer=torch.optim.Adam, verbose=0
)
assert r.fit(x, x.sum(1, keepdims=True)).score(x, x.sum(1, keepdims=True)) > 0.7
print("ok")
