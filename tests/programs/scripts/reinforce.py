"""REINFORCE and an actor-critic on a pole to balance, without torch.distributions."""

import math
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from seedless import set_weights, waves

SavedAction = namedtuple("SavedAction", ["log_prob", "value", "entropy"])


class Pole:
    """A pole on a cart, which a force from the left or right keeps up."""

    def reset(self, seed):
        self.state = (waves(4, speed=1 + seed) * 0.05).tolist()
        return torch.tensor(self.state)

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if action else -10.0
        temp = (force + 0.05 * spin**2 * math.sin(angle)) / 1.1
        bend = 9.8 * math.sin(angle) - math.cos(angle) * temp
        bend /= 0.5 * (4 / 3 - 0.1 * math.cos(angle) ** 2 / 1.1)
        push = temp - 0.05 * bend * math.cos(angle) / 1.1
        self.state = [x + 0.02 * v, v + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * bend]
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return torch.tensor(self.state), 1.0, done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(4, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


def select_action(model, state, chance):
    probs, value = model(state)
    action = int(chance > probs.detach().cumsum(0)[0].item())  # instead of Categorical's sample
    log_prob = probs.gather(0, torch.tensor(action).view(1)).log()
    entropy = -(probs * probs.log()).sum()
    model.saved_actions.append(SavedAction(log_prob, value, entropy))
    return action


def finish_episode(model, optimizer):
    R, returns, policy_losses, value_losses = 0, deque(), [], []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.appendleft(R)
    returns = torch.tensor(list(returns))
    returns = (returns - returns.mean()) / (returns.std() + torch.finfo(torch.float32).eps)
    for (log_prob, value, entropy), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage - 0.01 * entropy)
        value_losses.append(F.smooth_l1_loss(value, R.reshape(1)))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:], model.saved_actions[:]
    return loss.item()


env, model = Pole(), set_weights(Policy())
optimizer = optim.Adam(model.parameters(), lr=3e-2)
running = 10.0
for episode in range(6):
    state = env.reset(episode)
    chances = ((waves(40, speed=0.7 + 0.01 * episode) + 1) / 2).tolist()
    for chance in chances:
        state, reward, done = env.step(select_action(model, state, chance))
        model.rewards.append(reward)
        if done:
            break
    steps = len(model.rewards)
    running = 0.05 * steps + 0.95 * running
    loss = finish_episode(model, optimizer)
    print(f"Episode {episode}\tLast reward: {steps}\tAverage: {running:.4f}\tloss {loss:.5f}")
